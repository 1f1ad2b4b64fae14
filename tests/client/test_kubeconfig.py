import base64

import pytest
import yaml

from echelon.client.kubeconfig import ConfigError, contexts, load


def config(tmp_path, name="config", **changes):
    document = {
        "current-context": "hub",
        "clusters": [
            {"name": "c", "cluster": {"server": "https://127.0.0.1:1/", "certificate-authority": "ca.crt"}}
        ],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "hub", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        **changes,
    }
    (tmp_path / "ca.crt").write_bytes(b"CA")
    path = tmp_path / name
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_the_current_context_says_server_trust_and_user(tmp_path):
    access = load(config(tmp_path))
    assert (access.server, access.ca, access.token, access.namespace) == (
        "https://127.0.0.1:1",
        b"CA",
        "secret",
        "team",
    )


def test_a_missing_context_names_those_there_are(tmp_path):
    with pytest.raises(ConfigError, match=r'no context "nope"; there are: hub'):
        load(config(tmp_path), "nope")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="does not exist"):
        load(str(tmp_path / "absent"))


def test_without_any_kubeconfig_the_message_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    with pytest.raises(ConfigError, match="echelon up"):
        load()


def test_of_several_files_the_first_that_names_an_entry_wins(tmp_path, monkeypatch):
    first = config(tmp_path, "first")
    second = config(
        tmp_path,
        "second",
        **{
            "current-context": "other",
            "contexts": [{"name": "other", "context": {"cluster": "c", "user": "u"}}],
        },
    )
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}")
    assert load().context == "hub"
    assert contexts() == ["hub", "other"]


def test_inline_data_is_decoded_and_wins_over_a_file(tmp_path):
    cluster = {"server": "https://x", "certificate-authority-data": base64.b64encode(b"INLINE").decode()}
    assert load(config(tmp_path, clusters=[{"name": "c", "cluster": cluster}])).ca == b"INLINE"


def test_bad_inline_data_is_an_error_that_names_the_field(tmp_path):
    cluster = {"server": "https://x", "certificate-authority-data": "%%%"}
    with pytest.raises(ConfigError, match="certificate-authority-data is not base64"):
        load(config(tmp_path, clusters=[{"name": "c", "cluster": cluster}]))


@pytest.mark.parametrize("text", ["[1, 2]", "{", "just words"])
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path, text):
    path = tmp_path / "broken"
    path.write_text(text)
    with pytest.raises(ConfigError, match="broken"):
        load(str(path))

"""Validation of webhooks: where they are, what they are asked about, and how a definition has itself converted.

What it must never do: call anybody, or compile expressions: those are checked where policies' are.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from echelon.hub.builtins_pod_rules import Found, Rule
from echelon.hub.conversion import SPOKEN
from echelon.hub.metadata import DNS1035_MESSAGE, SUBDOMAIN_FMT, SUBDOMAIN_MESSAGE

Json = dict[str, Any]

_SUBDOMAIN = re.compile(SUBDOMAIN_FMT + r"\Z")
_DNS1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
_URL_FORM = "desired format: https://host[/path]"
_ONE_OF = "exactly one of url or service is required"
_NOT_WEBHOOK = "should not be set when strategy is not set to Webhook"
OPERATIONS = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]
SCOPES = ["*", "Cluster", "Namespaced"]
HARMLESS = ["None", "NoneOnDryRun"]
MAX_TIMEOUT_S = 30


def conversion(found: Found, spec: Json) -> None:
    """Check how a definition has its objects converted."""
    given = spec.get("conversion")
    if given is None:
        return
    strategy, hook, path = given.get("strategy"), given.get("webhook") or {}, "spec.conversion"
    if not strategy:
        found.required(f"{path}.strategy")
    elif strategy not in ("None", "Webhook"):
        found.unsupported(f"{path}.strategy", strategy, ["None", "Webhook"])
    config, versions = hook.get("clientConfig"), hook.get("conversionReviewVersions")
    if strategy == "Webhook":
        if config is None:
            found.required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
        else:
            client_config(found, config, f"{path}.webhookClientConfig")
        review_versions(found, versions, f"{path}.conversionReviewVersions")
        return
    if config is not None:
        found.forbidden(f"{path}.webhookClientConfig", _NOT_WEBHOOK)
    if versions:
        found.forbidden(f"{path}.conversionReviewVersions", _NOT_WEBHOOK)


def configuration(found: Found, obj: Json, _old: Json | None) -> None:
    """Check a configuration of admission webhooks."""
    names: set[str] = set()
    for index, hook in enumerate(obj.get("webhooks") or ()):
        path = f"webhooks[{index}]"
        name = hook.get("name") or ""
        _name(found, name, f"{path}.name")
        if name and name in names:
            found.duplicate(f"{path}.name", name)
        names.add(name)
        for at, rule in enumerate(hook.get("rules") or ()):
            rule_with_operations(found, rule, f"{path}.rules[{at}]")
        client_config(found, hook.get("clientConfig") or {}, f"{path}.clientConfig")
        where = f"{path}.admissionReviewVersions"
        review_versions(found, hook.get("admissionReviewVersions"), where, "must specify one of v1, v1beta1")
        effects = hook.get("sideEffects")
        if effects is None:
            found.required(f"{path}.sideEffects", f"must specify one of {', '.join(HARMLESS)}")
        elif effects not in HARMLESS:
            found.unsupported(f"{path}.sideEffects", effects, HARMLESS)
        seconds = hook.get("timeoutSeconds")
        if seconds is not None and not 1 <= seconds <= MAX_TIMEOUT_S:
            why = f"the timeout value must be between 1 and {MAX_TIMEOUT_S} seconds"
            found.invalid(f"{path}.timeoutSeconds", seconds, why)


def _name(found: Found, name: str, path: str) -> None:
    """Check the name of a webhook: a domain of three parts or more."""
    if not name:
        found.required(path)
    elif not _SUBDOMAIN.match(name):
        found.invalid(path, name, SUBDOMAIN_MESSAGE)
    elif len(name.split(".")) < 3:
        found.invalid(path, name, "should be a domain with at least three segments separated by dots")


def rule_with_operations(found: Found, rule: Json, path: str) -> None:
    """Check which requests a rule names."""
    _stars(found, rule, path, "apiGroups", "other API groups")
    _stars(found, rule, path, "apiVersions", "other API versions")
    _stars(found, rule, path, "resources", "other resources without subresources")
    _stars(found, rule, path, "operations", "other operations")
    for index, version in enumerate(rule.get("apiVersions") or ()):
        if not version:
            found.required(f"{path}.apiVersions[{index}]")
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in OPERATIONS:
            found.unsupported(f"{path}.operations[{index}]", operation, OPERATIONS)
    scope = rule.get("scope")
    if scope and scope not in SCOPES:
        found.unsupported(f"{path}.scope", scope, SCOPES)


def _stars(found: Found, rule: Json, path: str, field: str, others: str) -> None:
    """Check that a list is there, and that everything stands alone."""
    values = rule.get(field) or []
    if not values:
        found.required(f"{path}.{field}")
    plain = [value for value in values if "/" not in value] if field == "resources" else values
    if "*" in values and len(plain) > 1:
        found.invalid(f"{path}.{field}", values, f"if '*' is present, must not specify {others}")


def review_versions(found: Found, given: list[str] | None, path: str, missing: str = "") -> None:
    """Check the versions of reviews that a webhook says it understands."""
    versions = given or []
    if not versions:
        found.required(path, missing)
        return
    for index, version in enumerate(versions):
        if not _DNS1035.match(version):
            found.invalid(f"{path}[{index}]", version, DNS1035_MESSAGE)
        elif version in versions[:index]:
            found.invalid(f"{path}[{index}]", version, "duplicate version")
    if not set(versions) & set(SPOKEN):
        found.invalid(path, versions, f"must include at least one of {', '.join(SPOKEN)}")


def client_config(found: Found, config: Json, path: str) -> None:
    """Check where a webhook is: at an address, or behind a service."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        found.required(path, _ONE_OF)
    elif url is not None:
        _address(found, url, f"{path}.url")
    elif service is not None:
        _service(found, service, f"{path}.service")


def _address(found: Found, url: str, path: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https":
        found.invalid(path, parts.scheme, f"'https' is the only allowed URL scheme; {_URL_FORM}")
    if not parts.hostname:
        found.invalid(path, parts.netloc, f"host must be specified; {_URL_FORM}")
    if parts.username is not None:
        found.invalid(path, parts.username, "user information is not permitted in the URL")
    if parts.fragment:
        found.invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        found.invalid(path, parts.query, "query parameters are not permitted in the URL")


def _service(found: Found, service: Json, path: str) -> None:
    for field in ("name", "namespace"):
        if not service.get(field):
            found.required(f"{path}.{field}")
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        why = "port is not valid: must be between 1 and 65535, inclusive"
        found.invalid(f"{path}.port", port, why)
    below = service.get("path")
    if below is None:
        return
    if not below.startswith("/"):
        found.invalid(f"{path}.path", below, "must start with a '/'")
    for index, segment in enumerate(below[1:].rstrip("/").split("/")):
        if not segment and below != "/":
            found.invalid(f"{path}.path", below, f"segment[{index}] may not be empty")


RULES: dict[str, Rule] = {
    "admissionregistration.k8s.io/validatingwebhookconfigurations": configuration,
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": configuration,
}

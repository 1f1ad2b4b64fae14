"""Acting as somebody else: the Impersonate headers, and the right to use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

from echelon.hub.access_rules import Attributes
from echelon.hub.call import User
from echelon.hub.gotext import quote
from echelon.hub.status import bad_request
from echelon.hub.tokens import AUTHENTICATED, account_groups

if TYPE_CHECKING:
    from echelon.hub.cluster import Cluster

PREFIX = "impersonate-"
EXTRA = "impersonate-extra-"
ACCOUNT = "system:serviceaccount:"
ANONYMOUS = "system:anonymous"
AUTHENTICATION = "authentication.k8s.io"


def impersonated(headers: Mapping[str, str], user: User, cluster: Cluster) -> User:
    """Return whom a request acts as; the caller must be allowed to be each part of it."""
    name = headers.get("impersonate-user", "")
    uid = headers.get("impersonate-uid", "")
    groups = [text.strip() for text in headers.get("impersonate-group", "").split("\n") if text.strip()]
    extra = {
        unquote(key[len(EXTRA) :]): tuple(value.split("\n"))
        for key, value in headers.items()
        if key.startswith(EXTRA)
    }
    if not name:
        if groups or uid or extra:
            asked = (
                f"&user.DefaultInfo{{Name:{quote('')}, UID:{quote(uid)}, Groups:{_go_list(groups)}, "
                f"Extra:{_go_map(extra)}}}"
            )
            raise bad_request(f"requested {asked} without impersonating a user name")
        return user
    for wanted in _wanted(name, uid, groups, extra):
        cluster.access.check(user, wanted)
    return User(name, _groups(name, groups), uid, extra)


def _go_list(texts: Iterable[str]) -> str:
    """Print a list of texts as Go does."""
    listed = ", ".join(map(quote, texts))
    return f"[]string{{{listed}}}" if listed else "[]string(nil)"


def _go_map(extra: Mapping[str, tuple[str, ...]]) -> str:
    """Print a map of lists of texts as Go does."""
    listed = ", ".join(f"{quote(key)}:{_go_list(values)}" for key, values in sorted(extra.items()))
    return f"map[string][]string{{{listed}}}" if extra else "map[string][]string(nil)"


def _wanted(name: str, uid: str, groups: list[str], extra: Mapping[str, tuple[str, ...]]) -> list[Attributes]:
    if name.startswith(ACCOUNT) and name.count(":") == 3:
        _, _, namespace, account = name.split(":")
        wanted = [Attributes("impersonate", "", "serviceaccounts", "", namespace, account)]
    else:
        wanted = [Attributes("impersonate", "", "users", "", "", name)]
    wanted += [Attributes("impersonate", "", "groups", "", "", group) for group in groups]
    if uid:
        wanted.append(Attributes("impersonate", AUTHENTICATION, "uids", "", "", uid))
    for key, values in extra.items():
        wanted += [
            Attributes("impersonate", AUTHENTICATION, "userextras", key, "", value) for value in values
        ]
    return wanted


def _groups(name: str, groups: list[str]) -> tuple[str, ...]:
    if name == ANONYMOUS:
        return (*groups, "system:unauthenticated")
    if not groups and name.startswith(ACCOUNT) and name.count(":") == 3:
        return account_groups(name.split(":")[2])
    return tuple(groups) if AUTHENTICATED in groups else (*groups, AUTHENTICATED)

"""Finds the API server and our credentials for it: in a kubeconfig, or in the pod that we run in."""

from __future__ import annotations

import base64
import copy
import os
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct

from rollouts.cluster import slim_import
from rollouts.cluster.credentials import Credentials, ExecPlugin, ReloadedCredentials, TokenFile
from rollouts.core.model.frozen import replace
from rollouts.errors import ApiUnavailable, SettingsInvalid
from rollouts.secret import Secret, without_password

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_OF_FLAGS = "(flags)"  # the name of a context, of a cluster and of a user that no file has
_TRUST = {"certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify"}
_SIGN_IN = {"token", "tokenFile", "exec", "auth-provider", "username", "password"}

# The errors that the library raises for a malformed file, besides its own class: it checks nothing beforehand.
_MALFORMED = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    OverflowError,
    RecursionError,
)


class AccessFlags(Struct, frozen=True, kw_only=True):
    """What a command line says instead of the kubeconfig, as kubectl's flags of these names; None and () for what stands there.

    `as_user` and what follows impersonate.
    """

    cluster: str | None = None
    user: str | None = None
    server: str | None = None
    token: Secret | None = None
    certificate_authority: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool = False
    as_user: str | None = None
    as_groups: tuple[str, ...] = ()
    as_uid: str | None = None


NO_FLAGS = AccessFlags()


class ClusterTarget(Struct, frozen=True):
    """An API server and our access to it.

    Args:
        namespace: the context's, or the service account's; `default` when neither says.
        impersonation: the headers that say as whom we act, of which one may come more than once.
        shares_credentials: other connections have the same ones, and go on when one of them ends.
    """

    library: slim_import.Library
    configuration: Any
    credentials: Credentials
    namespace: str
    proxy_authorization: Secret | None = None
    impersonation: tuple[tuple[str, str], ...] = ()
    shares_credentials: bool = False


async def read_target(
    *,
    kubeconfig: Path | None,
    context: str | None,
    flags: AccessFlags = NO_FLAGS,
    service_account: Path = SERVICE_ACCOUNT,
) -> ClusterTarget:
    """Finds the cluster by the given kubeconfig, $KUBECONFIG, ~/.kube/config or the pod's service account, the first that exists.

    A server among the flags needs none of them.

    Args:
        service_account: folder of token, ca.crt and namespace.

    Raises: SettingsInvalid, with what to do.
    """
    paths = _kubeconfig_paths(kubeconfig)
    if paths or flags.server is not None:
        target = await _from_kubeconfig(paths, context, flags)
    elif flags != NO_FLAGS:
        raise SettingsInvalid("there is no kubeconfig that the flags could change: say --server, or --kubeconfig")
    elif "KUBERNETES_SERVICE_HOST" in os.environ:
        target = _from_service_account(service_account)
    else:
        raise SettingsInvalid(
            "no cluster to connect to: use --kubeconfig, set KUBECONFIG, put a kubeconfig at ~/.kube/config, or run in a pod"
        )
    configuration = target.configuration
    configuration.connection_pool_maxsize = (
        0  # no limit: each watch keeps a connection, and `connection.py` bounds requests
    )
    # Python 3.13 began to refuse CA certificates without key identifiers, which kubectl and many clusters accept.
    configuration.disable_strict_ssl_verification = True
    if urlsplit(configuration.host).scheme not in ("http", "https"):
        server = without_password(configuration.host)
        raise SettingsInvalid(f"the cluster's server {server!r} must begin with https:// or http://")
    url = configuration.proxy or _proxy_from_environment(configuration.host)
    if not url:
        return target
    configuration.proxy = without_password(url)  # so that no error of a library contains it
    if urlsplit(url).scheme not in ("http", "https"):
        raise SettingsInvalid(
            f"the proxy {configuration.proxy!r} is not an HTTP proxy, the only kind that is supported"
        )
    parts = urlsplit(url)
    if parts.username is None:
        return target
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    basic = Secret("Basic " + base64.b64encode(pair.encode()).decode())
    return replace(target, proxy_authorization=basic)


async def read_cluster(
    *,
    kubeconfig: Path | None,
    context: str | None,
    flags: AccessFlags = NO_FLAGS,
    service_account: Path = SERVICE_ACCOUNT,
) -> ClusterTarget:
    """Finds the cluster as `read_target` does, with nobody's credentials. A pod needs no token for it.

    Args:
        service_account: folder of ca.crt.

    Raises: SettingsInvalid, with what to do.
    """
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    if host and flags == NO_FLAGS and not _kubeconfig_paths(kubeconfig):
        authority = service_account / "ca.crt"
        if not authority.is_file():
            raise SettingsInvalid(f"there is no {authority}: mount ca.crt of the ConfigMap kube-root-ca.crt there")
        server = f"[{host}]" if ":" in host else host
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        flags = AccessFlags(server=f"https://{server}:{port}", certificate_authority=authority)
    target = await read_target(kubeconfig=kubeconfig, context=context, flags=flags, service_account=service_account)
    return _with_credentials(target, Credentials(None))


def for_bearer(target: ClusterTarget, token: Secret) -> ClusterTarget:
    """The cluster for whoever has this token, and for nobody else: the target's own ways to sign in are left out."""
    return _with_credentials(target, Credentials(Secret(f"Bearer {token.reveal()}")))


def for_person(target: ClusterTarget, user: str, groups: tuple[str, ...]) -> ClusterTarget:
    """The target as somebody else, by impersonation: the target's own account needs that right. Its credentials are shared.

    Args:
        user: without control characters; the API server adds `system:authenticated` to the groups.
    """
    headers = (("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups))
    return replace(target, impersonation=headers, shares_credentials=True)


def _with_credentials(target: ClusterTarget, credentials: Credentials) -> ClusterTarget:
    configuration = copy.copy(target.configuration)
    # A certificate comes before a token for the API server, and `as` after it: the person would be another one.
    configuration.cert_file = configuration.key_file = configuration.username = configuration.password = None
    configuration.api_key = {}
    return replace(target, configuration=configuration, credentials=credentials, impersonation=())


def _kubeconfig_paths(given: Path | None) -> str:
    if given is not None:
        if not given.is_file():
            raise SettingsInvalid(f"the kubeconfig {given} does not exist: check --kubeconfig")
        return str(given)
    named = os.environ.get("KUBECONFIG", "")
    if named:
        if not any(Path(path).is_file() for path in named.split(os.pathsep) if path):
            raise SettingsInvalid(f"KUBECONFIG names only files that do not exist: {named}")
        return named
    home = Path(os.path.expanduser("~/.kube/config"))  # noqa: PTH111 - Path.home() fails for a user id without an account
    return str(home) if home.is_file() else ""


def _merged(kube: Any, paths: str) -> tuple[Any, Callable[[], object]]:
    """What the files say together, and what writes it back; without files nothing. Raises: ValueError, when they say nothing."""
    if not paths:
        return kube.ConfigNode("flags", {}), lambda: None
    merger = kube.KubeConfigMerger(paths)
    if merger.config is None:
        raise ValueError("it is empty")
    return merger.config, merger.save_changes


async def _from_kubeconfig(paths: str, context: str | None, flags: AccessFlags) -> ClusterTarget:
    library, given = slim_import.kubeconfig(), context
    kube = library.config
    configuration = library.configuration.Configuration()
    try:
        config, save = _merged(kube, paths)
        if flags != NO_FLAGS:
            context = _add_context(kube, config, context, flags)
        chosen = config["contexts"].get_with_name(context or config["current-context"])["context"]
        user = _user(config, chosen)
        credentials = _own_credentials(kube, user)
        # Credentials that we renew ourselves are removed from the user, so that the loader does not also run or read them.
        # Such a configuration must not be written back. One with an auth-provider must, as refresh tokens are for one use.
        persist = None
        if credentials is not None:
            for entry in ("exec", "tokenFile", "token"):
                user.value.pop(entry, None)
        elif user is not None and "auth-provider" in user:
            persist = save
        loader = kube.KubeConfigLoader(
            config_dict=config, active_context=context, config_base_path=None, config_persister=persist
        )
        await loader.load_and_set(configuration)
        namespace = chosen.safe_get("namespace") or "default"
        impersonation = _impersonation(user)
    except (library.config_exception, kube.yaml.YAMLError, *_MALFORMED) as exc:
        which = f" (context {given})" if given else ""
        what = _broken(kube.yaml, paths) or paths or "of the flags"
        raise SettingsInvalid(f"the kubeconfig {what}{which} cannot be used: {_why(exc)}") from exc
    if credentials is None and persist is not None:
        credentials = ReloadedCredentials(_reload(library, loader, configuration))
    credentials = credentials or Credentials(_bearer(configuration))
    return ClusterTarget(library, configuration, credentials, namespace, impersonation=impersonation)


def _add_context(kube: Any, config: Any, context: str | None, flags: AccessFlags) -> str:
    """Adds a context to the configuration in which the flags take the place of what the chosen one says; returns its name.

    Raises: ValueError, ConfigException, when the configuration lacks what the flags or the context name.
    """
    for part in ("contexts", "clusters", "users"):
        config.value[part] = config.value.get(part) or []
    named = context or config.safe_get("current-context")
    if not named and flags.server is None:
        raise ValueError("it has no current context: say --context, or --server")
    chosen = config["contexts"].get_with_name(named)["context"].value if named else {}
    changed = {**chosen}
    for key, given, said, replaced in _said_by(flags):
        name = given or chosen.get(key)
        found = config[f"{key}s"].get_with_name(name, safe=not given) if name else None
        kept = (found.safe_get(key) or {}) if found is not None else {}
        entry = {field: value for field, value in kept.items() if field not in replaced} | said
        path = found.path if found is not None else config.path
        config.value[f"{key}s"].append(kube.ConfigNode(_OF_FLAGS, {"name": _OF_FLAGS, key: entry}, path))
        changed[key] = _OF_FLAGS
    config.value["contexts"].append(kube.ConfigNode(_OF_FLAGS, {"name": _OF_FLAGS, "context": changed}, config.path))
    return _OF_FLAGS


def _said_by(flags: AccessFlags) -> Iterator[tuple[str, str | None, dict[str, Any], set[str]]]:
    """For a kubeconfig's cluster and user: the name that is given, the fields that the flags set, and those that they replace.

    Source of what replaces what: client-go, tools/clientcmd/client_config.go.
    """
    trust, files = flags.certificate_authority, (flags.client_certificate, flags.client_key)
    cluster = {
        "server": flags.server,
        "tls-server-name": flags.tls_server_name,
        "certificate-authority": str(trust.absolute()) if trust is not None else None,
        "insecure-skip-tls-verify": flags.insecure_skip_tls_verify or None,
    }
    no_longer = _TRUST if trust is not None or flags.insecure_skip_tls_verify else set()
    yield "cluster", flags.cluster, {field: value for field, value in cluster.items() if value is not None}, no_longer
    user = {
        "token": flags.token.reveal() if flags.token is not None else None,
        "as": flags.as_user,
        "as-groups": list(flags.as_groups) or None,
        "as-uid": flags.as_uid,
        **{
            f"client-{name}": str(path.absolute())
            for name, path in zip(("certificate", "key"), files, strict=True)
            if path
        },
    }
    said = {field: value for field, value in user.items() if value is not None}
    yield (
        "user",
        flags.user,
        said,
        {f"{field}-data" for field in said} | (_SIGN_IN if flags.token is not None else set()),
    )


def _impersonation(entry: Any) -> tuple[tuple[str, str], ...]:
    """The headers for as whom a kubeconfig's user acts. Raises: ValueError, when they do not name a user."""
    user: Mapping[str, Any] = entry.value if entry is not None else {}
    headers = [("Impersonate-User", user.get("as")), ("Impersonate-Uid", user.get("as-uid"))]
    headers += [("Impersonate-Group", group) for group in user.get("as-groups") or ()]
    extra = user.get("as-user-extra") or {}
    headers += [(f"Impersonate-Extra-{quote(key.lower())}", value) for key, values in extra.items() for value in values]
    said = tuple((name, str(value)) for name, value in headers if value)
    if said and said[0][0] != "Impersonate-User":
        raise ValueError("to act with another group or uid, name the user too: --as")
    return said


def _broken(yaml: Any, paths: str) -> str:
    """The file of several that is no YAML; "" when all of them are."""
    for path in paths.split(os.pathsep):
        try:
            yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (yaml.YAMLError, *_MALFORMED):
            return path
    return ""


def _why(exc: Exception) -> str:
    """What is wrong, in one line, without the text of the file, which contains secrets."""
    if isinstance(exc, RecursionError):
        return "it is nested too deeply, or contains itself"
    mark, problem = getattr(exc, "problem_mark", None), getattr(exc, "problem", None)
    return f"line {mark.line + 1}: {problem}" if mark is not None and problem else str(exc) or type(exc).__name__


def _user(config: Any, context: Any) -> Any:
    name = context.safe_get("user")
    found = config["users"].get_with_name(name, safe=True) if name and config.safe_get("users") else None
    return found["user"] if found is not None and found.safe_get("user") else None


def _own_credentials(kube: Any, user: Any) -> Credentials | None:
    """The credentials that the library would read only once, so that we renew them ourselves; None for others."""
    if user is None or "auth-provider" in user:
        return None
    folder = Path(user.path).resolve().parent if user.path else Path()
    if "exec" in user:
        described = kube.ExecProvider(user["exec"])
        program, *arguments = described.args
        if "/" in program:  # a relative path starts at the kubeconfig's folder; PATH is for bare names
            program = str(folder / program)
        return ExecPlugin(
            command=(program, *map(str, arguments)), environment=described.env, api_version=described.api_version
        )
    if "tokenFile" in user:
        return TokenFile(folder / str(user["tokenFile"]))
    return None


def _reload(library: slim_import.Library, loader: Any, configuration: Any) -> Callable[[], Awaitable[Secret | None]]:
    async def load() -> Secret | None:
        try:
            await loader.load_and_set(configuration)
        except (library.config_exception, *_MALFORMED) as exc:
            why = type(exc).__name__  # its text may contain the provider's answer
            raise ApiUnavailable(
                f"the credentials of the kubeconfig's auth-provider cannot be renewed ({why}); log in again"
            ) from exc
        return _bearer(configuration)

    return load


def _from_service_account(folder: Path) -> ClusterTarget:
    library = slim_import.incluster()
    configuration = library.configuration.Configuration()
    token = folder / "token"
    try:
        library.config.load_incluster_config(
            client_configuration=configuration,
            try_refresh_token=False,
            token_filename=str(token),
            cert_filename=str(folder / "ca.crt"),
        )
        named = folder / "namespace"
        namespace = named.read_text(encoding="utf-8").strip() if named.is_file() else ""
    except (library.config_exception, *_MALFORMED) as exc:
        raise SettingsInvalid(
            f"the pod's service account cannot be used: {exc} Check automountServiceAccountToken and {folder}"
        ) from exc
    return ClusterTarget(library, configuration, TokenFile(token), namespace or "default")


def _bearer(configuration: Any) -> Secret | None:
    header: str | None = configuration.api_key.get("BearerToken")
    return None if header is None else Secret(header)


def _proxy_from_environment(server: str) -> str | None:
    """The proxy by HTTPS_PROXY and NO_PROXY, as kubectl reads them, once and not for each request."""
    parts = urlsplit(server)
    name = parts.hostname or ""
    if name == "localhost" or name.startswith("127.") or name == "::1" or urllib.request.proxy_bypass(parts.netloc):
        return None
    return urllib.request.getproxies().get(parts.scheme)

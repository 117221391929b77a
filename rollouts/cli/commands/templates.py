"""The analysis templates that a command is about: those of files, and those of a cluster that are named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rollouts.api.spec.analysis.templates import TEMPLATES_MAX, AnalysisUse, TemplateName
from rollouts.api.v1alpha1.analysis import TemplateRef
from rollouts.api.v1alpha1.analysis_template import TemplateArgument
from rollouts.cli.kubernetes.parts import entries
from rollouts.cli.terminal.errors import is_not_served
from rollouts.cli.view.session import Session
from rollouts.cluster.decoding import manifest_from
from rollouts.errors import ApiNotFound
from rollouts.objects import ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, Manifest, mapping

TemplatesByName = Mapping[TemplateName, Manifest]


def templates_in(manifests: Sequence[Manifest]) -> dict[TemplateName, Manifest]:
    """The analysis templates of a file, by name, in their order."""
    scopes = {ANALYSIS_TEMPLATE.kind: False, CLUSTER_ANALYSIS_TEMPLATE.kind: True}
    return {
        TemplateName(str((manifest.get("metadata") or {}).get("name") or ""), scopes[manifest["kind"]]): manifest
        for manifest in manifests
        if manifest.get("apiVersion") == ANALYSIS_TEMPLATE.api_version and manifest.get("kind") in scopes
    }


def chosen(
    templates: TemplatesByName, names: Sequence[str], *, cluster_scope: bool = False, in_cluster: bool = False
) -> tuple[TemplateName, ...] | str:
    """The templates of those names; without names all that no other template names. A text says what is wrong.

    Args:
        templates: of the files.
        cluster_scope: names are of ClusterAnalysisTemplates; else a file may have either kind, and the cluster AnalysisTemplates.
        in_cluster: the cluster may have those that the files do not have.
    """
    if not templates and not (names and in_cluster):
        return "there is no AnalysisTemplate in the files"
    if not names:
        named = {name for template in templates.values() for name in named_by(template)}
        return tuple(template for template in templates if template not in named)
    found = [_in_files(templates, name, cluster_scope=cluster_scope) for name in names]
    if None in found and not in_cluster:
        missing, have = names[found.index(None)], ", ".join(template.name for template in templates)
        return f"the files have no template {missing}; they have {have}"
    pairs = zip(found, names, strict=True)
    return tuple(template or TemplateName(name, cluster_scope=cluster_scope) for template, name in pairs)


def _in_files(templates: TemplatesByName, name: str, *, cluster_scope: bool) -> TemplateName | None:
    named = (template for template in templates if template.name == name)
    return next((template for template in named if template.cluster_scope or not cluster_scope), None)


def use_of(path: str, names: Iterable[TemplateName], arguments: Mapping[str, str]) -> AnalysisUse:
    """An analysis by these templates, with values of arguments."""
    refs = ({"templateName": name.name, "clusterScope": name.cluster_scope} for name in names)
    return AnalysisUse(
        path=path,
        templates=[TemplateRef.model_validate(ref) for ref in refs],
        args=[TemplateArgument.model_validate({"name": name, "value": value}) for name, value in arguments.items()],
    )


async def gathered(
    session: Session, names: Iterable[TemplateName], files: TemplatesByName, *, namespace: str | None = None
) -> dict[TemplateName, Manifest]:
    """Templates with those that they name, from files where they are there, else from the cluster; missing ones are left out.

    Raises: what `Client` raises; ApiNotFound only where the cluster does not serve templates at all.
    """
    found = dict(files)
    ahead, looked = list(names), set[TemplateName]()
    while ahead and len(looked) <= TEMPLATES_MAX:
        name = ahead.pop()
        if name in looked:
            continue
        looked.add(name)
        if name not in found and (read := await _read(session, name, namespace or session.namespace)) is not None:
            found[name] = read
        if name in found:
            ahead += named_by(found[name])
    return found


async def _read(session: Session, name: TemplateName, namespace: str) -> Manifest | None:
    kind = CLUSTER_ANALYSIS_TEMPLATE if name.cluster_scope else ANALYSIS_TEMPLATE
    try:
        return manifest_from(await session.client.get(kind, namespace if kind.namespaced else None, name.name))
    except ApiNotFound as error:
        if is_not_served(error):
            raise
        return None


def named_by(template: Manifest) -> Iterator[TemplateName]:
    """The templates whose metrics and arguments a template adds to its own."""
    for _, reference in entries(mapping(template.get("spec")).get("templates")):
        yield TemplateName(str(reference.get("templateName")), bool(reference.get("clusterScope")))

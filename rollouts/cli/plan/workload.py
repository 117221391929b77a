"""The pod template of a Rollout with `workloadRef`: from the file if the workload is in it, else from the cluster."""

from __future__ import annotations

from rollouts.cli.kubernetes.parts import is_a
from rollouts.cli.plan.config import SourceReader
from rollouts.cluster.decoding import manifest_from
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.errors import ApiNotFound, RolloutsError
from rollouts.objects import Manifest, mapping


async def with_its_template(reader: SourceReader, rollout: Manifest, *, namespace: str) -> Manifest:
    """The Rollout as if the template, and the selector, of its workload stood in it; itself without `workloadRef`.

    A template from a file has none of the API server's defaults, so the name of its revision is another one in the cluster.

    Raises: RolloutsError, when there is no such workload; what `Client` raises.
    """
    spec = mapping(rollout["spec"])
    if (reference := spec.get("workloadRef")) is None:
        return rollout
    kind, name = WorkloadKind(reference["kind"]), reference["name"]
    found = next((each for each in reader.manifests if _is(each, kind, name, namespace, reader)), None)
    if found is None:
        try:
            found = manifest_from(await reader.session.client.get(kind.resource, namespace, name))
        except ApiNotFound as exc:
            raise RolloutsError(
                f"{kind} {name}, which workloadRef names, is neither in the file nor in the cluster"
            ) from exc
    workload = mapping(found.get("spec"))
    own = {key: value for key, value in spec.items() if key != "workloadRef"}
    joined = {
        "template": found.get("template") or workload.get("template"),
        "selector": workload.get("selector"),
        **own,
    }
    return {**rollout, "spec": {key: value for key, value in joined.items() if value is not None}}


def _is(manifest: Manifest, kind: WorkloadKind, name: str, namespace: str, reader: SourceReader) -> bool:
    metadata = mapping(manifest.get("metadata"))
    where = metadata.get("namespace") or reader.session.namespace
    return is_a(manifest, kind.resource) and (metadata.get("name"), where) == (name, namespace)

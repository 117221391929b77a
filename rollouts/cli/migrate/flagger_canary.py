"""A Flagger Canary as its migration reads it: defaults as Flagger has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rollouts.cli.migrate.outcome import Migration, Told, name_of, ref_of, texts_in, whole
from rollouts.metrics.kubernetes_values import go_duration_s
from rollouts.objects import Manifest, mapping

_ROUTERS = {
    router.lower(): router
    for router in ("gatewayAPI", "istio", "nginx", "contour", "traefik", "apisix", "gloo", "skipper")
}
"""By the word of `spec.provider` before its version."""

_MESHES = ("linkerd", "kuma")
"""Those that take an HTTPRoute whose parent is a Service: https://gateway-api.sigs.k8s.io/mesh/."""

_ITERATIONS = 10
_INTERVAL, _INTERVAL_S, _INTERVAL_LEAST_S = "1m", 60.0, 10.0


class FlaggerCanary(Struct, frozen=True):
    """A Canary on its way, with the Deployment that it names.

    Source of the defaults: Flagger, pkg/apis/flagger/v1beta1/canary.go.
    """

    manifest: Manifest
    deployment: Manifest
    migration: Migration

    @property
    def spec(self) -> Mapping[str, Any]:
        return mapping(self.manifest.get("spec"))

    @property
    def analysis(self) -> Mapping[str, Any]:
        """`spec.analysis`, or under its old name."""
        return mapping(self.spec.get("canaryAnalysis" if self.spec.get("analysis") is None else "analysis"))

    @property
    def is_analysed(self) -> bool:
        """Flagger judges updates, and sets weights."""
        given = [self.spec.get(name) for name in ("analysis", "canaryAnalysis")]
        return not self.spec.get("skipAnalysis") and any(each is not None for each in given)

    @property
    def service(self) -> Mapping[str, Any]:
        return mapping(self.spec.get("service"))

    @property
    def apex(self) -> str:
        """The Service that clients know."""
        return str(self.service.get("name") or name_of(self.deployment))

    @property
    def canary_service(self) -> str:
        return f"{self.apex}-canary"

    @property
    def namespace(self) -> Manifest:
        """Its place in the metadata of what is made beside the Rollout."""
        namespace = ref_of(self.manifest).namespace
        return {} if namespace is None else {"namespace": namespace}

    @property
    def interval_s(self) -> float:
        """Between two steps, and two measurements."""
        return max(go_duration_s(self.analysis.get("interval")) or _INTERVAL_S, _INTERVAL_LEAST_S)

    @property
    def interval(self) -> str:
        """The same, as a duration of Kubernetes."""
        written = str(self.analysis.get("interval") or _INTERVAL)
        return written if go_duration_s(written) == self.interval_s else f"{self.interval_s:g}s"

    @property
    def failures(self) -> int:
        """How many failed checks are borne: one fewer than those at which Flagger rolls back."""
        return max(whole(self.analysis.get("threshold"), 1), 1) - 1

    @property
    def iterations(self) -> int:
        return max(whole(self.analysis.get("iterations"), 0), 0)

    @property
    def rounds(self) -> int:
        """How many intervals pass before the promotion, where no weight is set."""
        return self.iterations or _ITERATIONS

    @property
    def most(self) -> int:
        """The last weight."""
        given = self.analysis.get("stepWeights")
        if isinstance(given, list) and given:
            return min(whole(given[-1], 100), 100)
        return whole(self.analysis.get("maxWeight"), 0) or 100

    @property
    def weights(self) -> list[int]:
        """In percent, one after the other."""
        given, step = self.analysis.get("stepWeights"), whole(self.analysis.get("stepWeight"), 0)
        if step > 0:
            weights = [min(step, 100)]
            while weights[-1] < min(self.most, 100):
                weights.append(min(weights[-1] + step, 100))
            return weights
        return [whole(weight, 0) for weight in given] if isinstance(given, list) and given else [self.most]

    @property
    def is_in_mesh(self) -> bool:
        """Its requests go by a mesh that takes HTTPRoutes for Services."""
        return str(self.spec.get("provider")).partition(":")[0] in _MESHES

    def router(self) -> str | None:
        """The name of its router here; None for a blue-green, with a note if Flagger would have set weights."""
        provider = str(self.spec.get("provider") or "")
        word = provider.partition(":")[0]
        if word in _ROUTERS:
            return _ROUTERS[word]
        if self.is_in_mesh:
            how = (
                f"an HTTPRoute whose parent is Service {self.apex}, which {word} takes; it needs the Gateway API's CRDs"
            )
            self.note(Told.CHANGED, "spec.provider", how)
            return "gatewayAPI"
        if not provider:
            said = "a flag of Flagger said it; a blue-green came out: write trafficRouting if weights are to move"
            self.note(Told.TO_DO, "spec.provider", said)
        elif word != "kubernetes":
            why = f"no router here does what {provider} did; a blue-green came out"
            self.note(Told.LEFT_OUT, "spec.provider", why)
        return None

    def at(self, name: str) -> str:
        """The path of a field of the analysis; of the analysis itself for ""."""
        root = (
            "spec.analysis"
            if self.spec.get("analysis") or not self.spec.get("canaryAnalysis")
            else "spec.canaryAnalysis"
        )
        return f"{root}.{name}" if name else root

    def note(self, told: Told, path: str, message: str) -> None:
        self.migration.note(told, self.manifest, path, message)

    def moved(self, to: Manifest, paths: Mapping[str, str]) -> None:
        self.migration.moved(self.manifest, to, paths)

    def has_scaler(self, reference: Mapping[str, Any]) -> bool:
        """Whether the autoscaler that it names came in too."""
        wanted = (str(reference.get("kind")), ref_of(self.manifest).namespace, str(reference.get("name")))
        refs = map(ref_of, self.migration.inputs)
        return any((ref.kind, ref.namespace, ref.name) == wanted for ref in refs)

    def note_what_names_the_primary(self) -> None:
        """Adds a note for each object of its namespace that selects the pods of the primary, or leads to its Service."""
        primaries = {f"{name}-primary": name for name in (name_of(self.deployment), self.apex)}
        for manifest in self.migration.inputs:
            if (
                ref_of(manifest).namespace == ref_of(self.manifest).namespace
                and self.migration.owner_of(manifest) is None
            ):
                for path, name in texts_in(manifest, primaries):
                    how = f"{name} goes with the Canary, and so do its pods: write {primaries[name]}"
                    self.migration.note(Told.TO_DO, manifest, path, how)

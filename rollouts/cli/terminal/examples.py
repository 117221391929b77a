"""Two or three examples for each command, as its help shows them. The program's name comes before each."""

from __future__ import annotations

from collections.abc import Mapping

from rollouts.errors import APPLY_CRDS

EXAMPLES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "": (
        ("get cart -w", "follow an update"),
        ("promote cart", "pass the gate where it waits"),
        ("abort cart", "back to the stable revision"),
        ("undo cart", "back to the previous revision"),
    ),
    "get": (
        ("get", "all Rollouts of the namespace"),
        ("get cart -w", "the tree of one, live"),
        ("get cart -w --timeout 5m", "for five minutes at most"),
    ),
    "list": (
        ("list -A", "all namespaces"),
        ("list -l tier=web -o wide", "with these labels, with more columns"),
        ("list -o name", "names for a script"),
    ),
    "status": (
        ("status cart", "one line and an exit code"),
        ("status cart -w --timeout 10m", "wait until it is Healthy or bad"),
    ),
    "history": (
        ("history cart", "revisions, and which you can go back to"),
        ("history cart -o json", "the same as data"),
    ),
    "drain-report": (
        ("drain-report cart", "what the last cutover waited for"),
        ("drain-report cart -o json", "the same as data"),
    ),
    "dashboard": (
        ("dashboard", "print an address to open in a browser"),
        ("dashboard -n shop --port 0", "one namespace, on a free port"),
        ("dashboard --auth token --host rollouts.example.com", "for all who sign in, behind TLS"),
    ),
    "analysis": (
        ("analysis list", "AnalysisRuns of the namespace"),
        ("analysis get cart-6d4b-step-1", "each measurement of one"),
    ),
    "analysis list": (
        ("analysis list --rollout cart", "those about one Rollout"),
        ("analysis list -A -o wide", "all, with why"),
    ),
    "analysis get": (
        ("analysis get cart-6d4b-step-1", "metrics, conditions, measurements"),
        ("analysis get cart-6d4b-step-1 -w", "follow it to its end"),
    ),
    "analysis providers": (
        ("analysis providers", "metric servers, and which may be asked"),
        ("analysis providers --ask", "what each of them answers now"),
    ),
    "experiment": (
        ("experiment list", "Experiments of the namespace"),
        ("experiment get compare-1", "pods and analyses of one"),
    ),
    "experiment list": (
        ("experiment list", "those of the namespace"),
        ("experiment list -A -o wide", "all, with every column"),
    ),
    "experiment get": (
        ("experiment get compare-1", "pods of each template, analyses"),
        ("experiment get compare-1 -w", "follow it to its end"),
    ),
    "experiment terminate": (
        ("experiment terminate compare-1", "judge what was measured so far"),
        ("experiment terminate compare-1 -w", "and wait for the end"),
    ),
    "config": (
        ("config list cart", "what each revision has"),
        ("config diff cart 2 3", "keys and values that differ"),
    ),
    "config list": (
        ("config list cart", "ConfigMaps and Secrets of each revision"),
        ("config list cart -o json", "the same as data"),
    ),
    "config diff": (
        ("config diff cart 2 3", "between revisions 2 and 3"),
        ("config diff cart stable canary --full", "without cutting long values"),
    ),
    "diff": (
        ("diff cart", "the previous revision and the current one"),
        ("diff cart 2 3", "revisions 2 and 3"),
        ("diff -f cart.yaml", "what applying the file would change"),
    ),
    "plan": (
        ("plan -f cart.yaml", "what the next update would do"),
        ("plan -f cart.yaml -o json", "the same as data"),
    ),
    "promote": (
        ("promote cart", "pass the gate where it waits"),
        ("promote cart --full", "pass every step and every analysis"),
        ("promote cart --skip-analysis", "pass the analysis that measures now"),
    ),
    "abort": (
        ("abort cart", "the stable revision gets all traffic"),
        ("abort cart -n shop", "in another namespace"),
    ),
    "retry": (
        ("retry cart", "the aborted revision again, from its first step"),
        ("retry rollout cart", "the same"),
    ),
    "pause": (
        ("pause cart", "no further step; scaling continues"),
        ("pause cart --no-wait", "without waiting for the controller's answer"),
    ),
    "resume": (
        ("resume cart", "end a pause that `pause` began"),
        ("resume cart --no-wait", "without waiting for the controller's answer"),
    ),
    "undo": (
        ("undo cart", "the previous revision"),
        ("undo cart --to-revision=3", "revision 3, as in history"),
        ("undo cart --full", "without steps and analyses on the way"),
    ),
    "rollback": (
        ("rollback cart", "the previous revision"),
        ("rollback cart --to 3", "revision 3, as in history"),
    ),
    "restart": (
        ("restart cart", "replace the pods that exist now"),
        ("restart cart --in 10m", "those that exist in ten minutes"),
    ),
    "set": (("set image cart app=registry.example/app:2", "another image"),),
    "set image": (
        ("set image cart app=registry.example/app:2", "for one container"),
        ("set image cart '*=registry.example/app:2'", "for every container"),
    ),
    "create": (
        ("create -f cart.yaml", "after lint has found no problem"),
        ("create -f cart.yaml -w", "and follow the Rollout"),
    ),
    "delete": (
        ("delete cart", "says what is lost, and asks"),
        ("delete cart web --yes", "without asking"),
    ),
    "analyze": (
        ("analyze success-rate --rollout cart -w", "make a run, and follow it"),
        ("analyze -f templates.yaml --dry-run", "measure now, write nothing"),
    ),
    "analysis terminate": (
        ("analysis terminate cart-6d4b-step-1", "judge what was measured so far"),
        ("analysis terminate cart-6d4b-step-1 -w", "and wait for the verdict"),
    ),
    "lint": (
        ("lint -f cart.yaml", "every problem, with its line"),
        ("lint -f deploy/ -o github", "a folder, as annotations of GitHub"),
    ),
    "migrate": (
        ("migrate -f deployment.yaml", "a Deployment to a Rollout"),
        ("migrate -f canary.yaml > cart.yaml", "objects into a file, notes to the screen"),
    ),
    "gitops": (
        ("gitops -f cart.yaml", "what Argo CD and Flux must ignore"),
        ("gitops -f cart.yaml --for flux", "Flux alone"),
    ),
    "rbac": (
        ("rbac -f cart.yaml -n shop", "Roles for the Secrets that it names"),
        ("rbac -f cart.yaml --service-account rollouts/rollouts", "for another ServiceAccount"),
    ),
    "doctor": (
        ("doctor", "faults, each with what repairs it"),
        ("doctor --controller-namespace rollouts", "when you may not look in every namespace"),
    ),
    "version": (
        ("version", "of this program, the controllers, the API server"),
        ("version --client", "of this program only"),
    ),
    "crds": (
        (APPLY_CRDS.removeprefix("rollouts "), "install or update them"),
        ("crds > crds.yaml", "into a file"),
    ),
    "completion": (
        ("completion bash > rollouts.bash", "a file to source"),
        ("completion zsh > rollouts.zsh", "the same for zsh"),
    ),
    "explain": (
        ("explain", "all reasons and rules"),
        ("explain PodsNotAvailable", "a reason of a condition or a wait"),
        ("explain NoReadinessProbe", "a rule of lint"),
    ),
    "help": (
        ("help get", "one command"),
        ("help options", "the options that choose a cluster"),
    ),
    "demo": (
        ("demo", "on a cluster inside this process"),
        ("demo --cluster", "in a namespace of your own cluster"),
    ),
}  # fmt: skip

{{- /*
What the controller may do, and why. Nothing else is asked for: no "*", no Secrets.

  rollouts                 get list watch   the objects it serves
                           patch            removes a verb's annotation once it is resolved; rolls back
  rollouts/status          patch            its memory and its report: one patch a pass at most
  rollouts/finalizers      update           owner references that block the owner's deletion, where the cluster enforces
                                            permission for them (OwnerReferencesPermissionEnforcement; OpenShift does)
  replicasets              get list watch   the revisions
                           create           a new revision
                           patch            scale, adopt, annotate
                           delete           revisions beyond the history limit
  services                 get list watch   which revision they select
                           patch            steer them to a revision (selector, managed label)
  endpointslices           list watch       whether the data plane has followed
  pods                     list             why a revision is not ready; which pods are older than a restart
                           patch            metadata of the canary's and the stable's pods
  pods/eviction            create           restart, which respects PodDisruptionBudgets; pods are never deleted
  events (events.k8s.io)   create           what happened
*/}}
{{- define "rollouts.rules" -}}
- apiGroups: [rollouts.dev]
  resources: [rollouts]
  verbs: [get, list, watch, patch]
- apiGroups: [rollouts.dev]
  resources: [rollouts/status]
  verbs: [patch]
- apiGroups: [rollouts.dev]
  resources: [rollouts/finalizers]
  verbs: [update]
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, patch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, patch]
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end }}

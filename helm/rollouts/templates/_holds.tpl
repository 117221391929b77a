{{/*
How a workload of each kind is held (holds.yaml): the patches of the policy, in CEL, and the variables that only this kind has.

  variables.holds      a new template comes: nothing may follow it
  variables.guards     an update is under way, and the write is not the controller's: its fields stay
  variables.whole      the write is a whole manifest of somebody who has not read the workload
*/}}

{{- define "rollouts.hold.deployments" -}}
patches: |-
  (variables.guards ? [
    JSONPatch{op: 'add', path: '/spec/strategy', value: oldObject.spec.strategy},
    JSONPatch{op: 'add', path: '/spec/minReadySeconds', value: oldObject.spec.?minReadySeconds.orValue(0)},
    JSONPatch{op: 'add', path: '/spec/progressDeadlineSeconds', value: oldObject.spec.?progressDeadlineSeconds.orValue(600)}
  ] : [])
  + (variables.holds || (variables.whole && oldObject.spec.?paused.orValue(false))
    ? [JSONPatch{op: 'add', path: '/spec/paused', value: true}] : [])
{{- end }}

{{/* A hold that no update has taken over yet. Whoever takes the label off means it. */}}
{{- define "rollouts.holdStands" -}}
'rollouts.dev/hold' in variables.oldLabels && variables.same
&& (variables.whole || 'rollouts.dev/hold' in variables.labels)
{{- end }}

{{/* A partition of that size is nobody's but ours. With `replicas` in its place a pod of a scale-up would be new. */}}
{{- define "rollouts.hold.statefulsets" -}}
variables:
  - name: stays
    expression: >-
      variables.guards || (oldObject.spec.?updateStrategy.?rollingUpdate.?partition == optional.of(2147483647)
      && {{ include "rollouts.holdStands" . | nindent 6 | trim }})
  - name: strategy
    expression: "variables.stays ? oldObject.spec.updateStrategy : object.spec.updateStrategy"
  - name: sets
    expression: "variables.holds && variables.strategy.?type != optional.of('OnDelete')"
  # The user's partition is noted, unless it is the hold's own, or that of a step.
  - name: notes
    expression: >-
      variables.sets && !variables.guards && variables.strategy.?rollingUpdate.?partition != optional.of(2147483647)
patches: |-
  (variables.stays ? [JSONPatch{op: 'add', path: '/spec/updateStrategy', value: variables.strategy}] : [])
  + (!variables.sets ? [] :
    has(variables.strategy.rollingUpdate)
    ? [JSONPatch{op: 'add', path: '/spec/updateStrategy/rollingUpdate/partition', value: 2147483647}]
    : [JSONPatch{op: 'add', path: '/spec/updateStrategy/rollingUpdate', value: {'partition': 2147483647}}])
after: |-
  + (!variables.notes ? [] :
    (has(object.metadata.annotations) || variables.whole ? [] : [JSONPatch{op: 'add', path: '/metadata/annotations', value: {}}])
    + [JSONPatch{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey('rollouts.dev/partition'),
      value: variables.strategy.?rollingUpdate.?partition.hasValue() ? string(variables.strategy.rollingUpdate.partition) : ''}])
{{- end }}

{{/* The API server fills in rollingUpdate only beside its own type: both together are a hold. */}}
{{- define "rollouts.hold.daemonsets" -}}
variables:
  - name: stays
    expression: >-
      variables.guards || (oldObject.spec.?updateStrategy.?type == optional.of('OnDelete')
      && has(oldObject.spec.updateStrategy.rollingUpdate) && {{ include "rollouts.holdStands" . | nindent 6 | trim }})
patches: |-
  (variables.stays ? [JSONPatch{op: 'add', path: '/spec/updateStrategy', value: oldObject.spec.updateStrategy}] : [])
  + (variables.holds ? [JSONPatch{op: 'add', path: '/spec/updateStrategy/type', value: 'OnDelete'}] : [])
{{- end }}

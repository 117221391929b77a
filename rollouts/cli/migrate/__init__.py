"""From the objects of Deployments, Argo Rollouts and Flagger to Rollouts."""

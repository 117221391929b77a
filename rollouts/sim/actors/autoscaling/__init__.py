"""The HorizontalPodAutoscaler: what it is asked for, its algorithm, and the actor that carries it out."""

"""The nouns of the policy: what is wished, seen, remembered and intended. No rules."""

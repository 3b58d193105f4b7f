"""Texts that every adapter scores on the shipped ladders demo/story."""

TEXTS = [
    "A dog ran home. It was late, and the dog was glad to be back.",
    "dog dog dog",
    "A text without a ladder.",
]
CONTEXT_IDS = ["story-01", "story-02", "story-99"]  # the last is not in the set

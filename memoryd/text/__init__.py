"""Read text: sentences, fences and normal forms, one implementation of each; the lowest level, pure."""

"""Studies of learning from weak labels: algorithms × ways to make labels × rates × seeds."""

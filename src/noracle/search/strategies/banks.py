"""The texts and numbers that typed edits choose from; short, because small models lose long
instructions.
"""

from __future__ import annotations

PHRASES = (
    "Reason step by step before you answer.",
    "Rule out the options that cannot be right, one by one.",
    "Compare the two most likely options before you choose.",
    "Name the fact in the text that decides the question.",
    "Check your answer against the text once more.",
    "Beware of the option that only sounds right.",
    "Work from first principles; do not guess from wording.",
    "Keep your reasoning under five sentences.",
    "Trust your first impression and answer at once.",
    "State how sure you are before you answer.",
)
ROLES = (
    "",
    "You are a careful examiner.",
    "You are an expert in the field of the question.",
    "You are a sceptical reviewer.",
    "You are a patient teacher.",
    "You are a student who checks every step.",
    "You are a generalist with broad knowledge.",
)
TEMPERATURES = (0.0, 0.2, 0.5, 0.8, 1.0)
SAMPLES = (3, 5, 7)
ROUNDS = (1, 2, 3)
TOKENS = (256, 512, 1024)
MOST_TEXT = 4_000

PRINCIPLES = "Which principles decide a question like this one? List them; do not answer yet."
GUIDED = "Answer the question with the help of these principles."
CRITIC = (
    "Look for faults in the answer above. Say CORRECT only if you are certain that it is right."
)
REVISER = "Write a better answer that meets the criticism."
DEBATER = "Read what the others say, keep what is sound, and give your own answer."
DECIDER = "Weigh the answers above and give the one that is best supported."

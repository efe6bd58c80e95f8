"""The workflows that come with the package, one JSON file each; :func:`load_workflow` reads them by
name.

direct, cot                    one call, without and with reasoning
cot-sc                         five samples and a vote (Wang et al. 2023)
self-refine                    draft, criticism, revision, at most five times (Madaan et al. 2023)
debate, debate-three-roles     two rounds among roles, and a decision (Du et al. 2024)
step-back                      principles first, then the answer (Zheng et al. 2024)
quality-diversity              four different solutions and a decision (Lu et al. 2025)
role                           a router picks who answers (Xu et al. 2025)
principles, review-ensemble    what two searches found with weak labels
judge, judge-forced            a model grades an answer; with its thought cut short
judge-debate                   debaters, a pooler, and a coin where it stays uncertain
"""

from __future__ import annotations

from noracle.search.workflow import load_workflow, workflow_names

__all__ = ["load_workflow", "workflow_names"]

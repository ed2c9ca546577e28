"""Exact inference over a label graph: the posterior, the fast loss and the weight prior."""

from finegraph.inference.answers import Answer, Explanation, Part, Question, Statement
from finegraph.inference.loss import joint_loss
from finegraph.inference.posterior import JointSample, JointTable, Posterior

__all__ = [
    "Answer",
    "Explanation",
    "JointSample",
    "JointTable",
    "Part",
    "Posterior",
    "Question",
    "Statement",
    "joint_loss",
]

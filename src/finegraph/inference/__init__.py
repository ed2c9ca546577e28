"""Exact inference over a label graph: the posterior and the fast loss."""

from finegraph.inference.answers import Answer, Question, Statement
from finegraph.inference.explanations import Explanation, Part
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

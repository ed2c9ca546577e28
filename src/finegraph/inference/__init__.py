"""Exact inference over a label graph: the posterior and the fast loss."""

from finegraph.inference.answers import Answer, Question, Statement
from finegraph.inference.explanations import Explanation, Part
from finegraph.inference.loss import joint_loss, ranking_loss
from finegraph.inference.numbers.known_values import Around
from finegraph.inference.numbers.value_distribution import Interval, ValueDistribution
from finegraph.inference.posterior import JointSample, JointTable, Posterior

__all__ = [
    "Answer",
    "Around",
    "Explanation",
    "Interval",
    "JointSample",
    "JointTable",
    "Part",
    "Posterior",
    "Question",
    "Statement",
    "ValueDistribution",
    "joint_loss",
    "ranking_loss",
]

"""The joint loss with its gradients in closed form, and the loss of comparisons."""

from finegraph.inference.loss.joint_loss import joint_loss, ranking_loss

__all__ = ["joint_loss", "ranking_loss"]

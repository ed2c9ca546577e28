"""The joint loss and its gradients, in closed form."""

from finegraph.inference.loss.joint_loss import joint_loss

__all__ = ["joint_loss"]

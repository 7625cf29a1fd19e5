"""Losses of generalised linear models: everything that a fit, a report or an export asks of one."""

from replearn.losses.losses import Bernoulli, Gaussian, Loss, Multinomial, Poisson

__all__ = ["Bernoulli", "Gaussian", "Loss", "Multinomial", "Poisson"]

"""Where in training and in the model every GPU activity belongs: phase and module."""

from tracelens.flops.place.stage import place_activities

__all__ = ["place_activities"]

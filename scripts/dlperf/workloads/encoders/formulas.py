"""Layers as plain formulas on canonical weights, for reference implementations; PyTorch."""

import torch


def dense(weights, name, x):
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def layer_norm(weights, name, x, epsilon):
    """By the mean and the biased variance of the last axis; epsilon inside the root."""
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    x = (x - mean) / torch.sqrt(variance + epsilon)
    return x * weights[name + ".weight"] + weights[name + ".bias"]


def dropout(x, rate):
    """All of x, or nothing: what certificates ask for."""
    return x if rate == 0 else 0.0 * x


def heads_of(qkv, heads):
    """(batch, tokens, 3 width) -> query, key and value, each (batch, heads, tokens, head width)."""
    batch, tokens, width = qkv.shape
    return qkv.view(batch, tokens, 3, heads, width // 3 // heads).permute(2, 0, 3, 1, 4)

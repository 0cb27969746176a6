# SPDX-License-Identifier: Apache-2.0
from collections import OrderedDict

_global_optimizer_pre_hooks = OrderedDict()
_global_optimizer_post_hooks = OrderedDict()


def register_optimizer_step_pre_hook(hook):
    _global_optimizer_pre_hooks[len(_global_optimizer_pre_hooks)] = hook
    return object()


def register_optimizer_step_post_hook(hook):
    _global_optimizer_post_hooks[len(_global_optimizer_post_hooks)] = hook
    return object()


class Optimizer:
    def step(self, *args, **kwargs):
        for hook in _global_optimizer_pre_hooks.values():
            assert hook(self, args, kwargs) is None
        self.update(*args, **kwargs)
        for hook in _global_optimizer_post_hooks.values():
            hook(self, args, kwargs)


class SGD(Optimizer):
    def __init__(self, parameters):
        self.parameters = parameters

    def update(self, gradient):
        self.parameters[0] -= 0.01 * gradient

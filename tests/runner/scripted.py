"""A host and a device whose clock only moves when told."""

from runner.timing import measure


class Loss:
    def __init__(self, value):
        self.value = value

    def item(self):
        return self.value


class Machine:
    """A host and a device. A step takes the host `launch_s` to give, and the device `step_s(number)` to do."""

    def __init__(self, step_s, launch_s=0.0):
        self.step_s = step_s if callable(step_s) else lambda _: step_s
        self.launch_ns = round(launch_s * 1e9)
        self.now_ns = 0
        self.done_ns = 0  # when the device will have done what it was given
        self.steps = 0
        self.events = []

    def step(self):
        self.steps += 1
        self.events.append("step")
        self.now_ns += self.launch_ns
        self.done_ns = max(self.done_ns, self.now_ns) + round(self.step_s(self.steps) * 1e9)
        return Loss(float(self.steps))

    def synchronize(self):
        self.events.append("wait")
        self.now_ns = max(self.now_ns, self.done_ns)

    def clock(self):
        self.events.append("clock")
        return self.now_ns

    @property
    def blocks(self):
        """How many blocks have been begun: a step can depend on it."""
        return self.events.count("clock") // 2

    def measure(self, **settings):
        return measure(self.step, self.synchronize, clock=self.clock, **settings)

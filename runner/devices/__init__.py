"""The room that speaks to devices: the only caller of torch.cuda, torch.mps, torch.accelerator and set_num_threads.

`device.open_device` turns the name in a target into a `Device` or raises `DeviceUnavailable` with the cause. It is
called in the trial's own process, never in the nursery: a process that has touched CUDA cannot be forked.
This file imports nothing, so that `probe` can be used where torch is not loaded.
"""

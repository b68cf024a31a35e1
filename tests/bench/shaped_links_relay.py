"""Every packet of a network, held for a while: shaped_links_relay.py DEVICE MILLISECONDS

The kernel routes packets into the tun device DEVICE. The relay writes each one back after so many
milliseconds, in order. Packets keep the offload header of the kernel (up to 64 KiB in one packet),
so one core carries several Gbit/s. Prints a line once the device is there.
"""

import collections
import fcntl
import os
import select
import struct
import sys
import time

TUNSETIFF, TUNSETOFFLOAD, TUNSETVNETHDRSZ = 0x400454CA, 0x400454D0, 0x400454D8
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO_ECN = 0x01, 0x02, 0x08
HEADER, LARGEST = 12, 65536


def opened(name):
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    fcntl.ioctl(tun, TUNSETVNETHDRSZ, struct.pack("i", HEADER))
    fcntl.ioctl(tun, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO_ECN)
    return tun


def carry(tun, delay_s):
    held = collections.deque()  # (when it is due, packet)
    while True:
        wait_s = max(0.0, held[0][0] - time.monotonic()) if held else None
        if select.select([tun], [], [], wait_s)[0]:
            held.append((time.monotonic() + delay_s, os.read(tun, HEADER + LARGEST)))
        while held and held[0][0] <= time.monotonic():
            try:
                os.write(tun, held[0][1])
            except OSError:  # lost, as by any router
                pass
            held.popleft()


if __name__ == "__main__":
    device = opened(sys.argv[1])
    print("ready", flush=True)
    try:
        carry(device, float(sys.argv[2]) / 1000)
    except KeyboardInterrupt:
        pass

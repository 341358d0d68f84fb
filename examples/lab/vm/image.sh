#!/bin/sh
# Makes what a virtual machine starts from, of Debian's packages: image.sh KUBELET FOLDER
# The kernel, its initial file system and the disk are in the folder afterwards. It needs root.
set -eu
kubelet=$1 folder=$2 root=$2/root

# This release is the first whose containerd reads version 3 of its configuration. Nothing depends on how old the mirror is.
mmdebstrap --mode=root --variant=minbase --aptopt='Acquire::Check-Valid-Until "false"' --dpkgopt=force-unsafe-io \
  --include=linux-image-cloud-amd64,initramfs-tools,systemd-sysv,systemd-resolved,udev,dbus,kmod,procps,cloud-init \
  --include=containerd,runc,containernetworking-plugins,iproute2,iptables,ethtool,conntrack \
  --customize-hook='chroot "$1" systemctl --quiet enable systemd-networkd systemd-resolved' \
  --customize-hook='chroot "$1" systemctl --quiet disable containerd apt-daily.timer apt-daily-upgrade.timer' \
  forky "$root"

install -m 0755 "$kubelet" "$root/usr/bin/kubelet"
mkdir -p "$root/opt/cni" "$root/etc/cni/net.d"
ln -s /usr/lib/cni "$root/opt/cni/bin"
cat >"$root/etc/cni/net.d/10-bridge.conflist" <<CONFLIST
{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
CONFLIST
mkdir -p "$root/etc/systemd/system.conf.d"
printf '[Manager]\nDefaultTimeoutStartSec=15min\n' >"$root/etc/systemd/system.conf.d/slow.conf"
: >"$root/etc/machine-id" # each machine has one of its own
touch "$root/etc/.updated" "$root/var/.updated" # there is nothing to update at the first boot

cp "$root"/boot/vmlinuz-* "$folder/kernel"
cp "$root"/boot/initrd.img-* "$folder/initrd"
mke2fs -q -t ext4 -d "$root" "$folder/disk" 4G
rm -rf "$root"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs `policyc lab` on the example under the oldest kernel that is supported, Debian's 6.1, in QEMU.
#
# The guest sees this machine's file system, read-only, by 9p; what it writes goes to tmpfs and is gone.
# Needs root and apt; no KVM: emulation takes about half a minute. Exit code: that of `policyc lab`.
set -euo pipefail
cd "$(dirname "$0")/../.."
repository=$PWD
work=build/guest
limit=${GUEST_SECONDS:-300}

mkdir -p "$work"
missing=$(for p in qemu-system-x86 busybox-static cpio kmod; do dpkg -s "$p" >/dev/null 2>&1 || echo "$p"; done)
if [ -n "$missing" ]; then
	apt-get update -qq
	# shellcheck disable=SC2086 # a list of names
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

# The newest 6.1 kernel that apt knows, unpacked and not installed.
if [ ! -d "$work/kernel" ]; then
	image=$(apt-cache pkgnames linux-image-6.1 | grep -E '^linux-image-6\.1\.0-[0-9]+-amd64$' | sort -V | tail -1)
	(cd "$work" && apt-get download -qq "$image" 2>/dev/null)
	dpkg-deb -x "$work"/linux-image-6.1*.deb "$work/unpacked"
	depmod -b "$work/unpacked" "$(ls "$work/unpacked/lib/modules")"
	mv "$work/unpacked" "$work/kernel"
fi
release=$(ls "$work/kernel/lib/modules")

# An initramfs that can do one thing: mount this machine's root by 9p and go there.
initramfs=$work/initramfs
rm -rf "$initramfs"
mkdir -p "$initramfs"/{bin,proc,sys,dev,host,modules}
cp /bin/busybox "$initramfs/bin/"
at=0
for module in 9p 9pnet_virtio virtio_pci; do
	modprobe -d "$work/kernel" -S "$release" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
	at=$((at + 1))
	cp "$file" "$initramfs/modules/$(printf %02d $at).ko"
done
cat >"$initramfs/init" <<EOF
#!/bin/busybox sh
b=/bin/busybox
\$b mount -t proc proc /proc; \$b mount -t sysfs sys /sys; \$b mount -t devtmpfs dev /dev
for module in /modules/*.ko; do \$b insmod \$module; done
\$b mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose host /host
\$b mount -t proc proc /host/proc; \$b mount -t sysfs sys /host/sys; \$b mount -t devtmpfs dev /host/dev
\$b mount -t tmpfs tmpfs /host/run; \$b mount -t tmpfs tmpfs /host/tmp
\$b mount -t tmpfs tmpfs /host/mnt
\$b ln -s $repository/$work/kernel/lib/modules/$release /host/mnt/$release 2>/dev/null
\$b mount --bind /host/mnt /host/lib/modules
\$b chroot /host /bin/bash $repository/tests/guest/inside.sh "$repository"
\$b poweroff -f
EOF
chmod +x "$initramfs/init"
(cd "$initramfs" && find . | cpio -o -H newc 2>/dev/null) | gzip -1 >"$work/initramfs.gz"

timeout "$limit" qemu-system-x86_64 -M pc -accel tcg -cpu max -m 1500 -smp 1 -nographic -no-reboot \
	-kernel "$work/kernel/boot/vmlinuz-$release" -initrd "$work/initramfs.gz" \
	-append "console=ttyS0 quiet panic=-1" \
	-fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
	-device virtio-9p-pci,fsdev=root,mount_tag=host </dev/null | tee "$work/guest.log"
code=$(sed -n 's/.*guest exit code \([0-9]*\).*/\1/p' "$work/guest.log" | tail -1)
exit "${code:-3}"

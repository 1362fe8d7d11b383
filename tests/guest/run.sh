#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command under one of Debian's kernels, in QEMU: tests/guest/run.sh SERIES COMMAND...
#
# SERIES is 6.1 (the oldest kernel that is supported), 6.12, or what else apt has as linux-image-SERIES.
# The command runs as root in this repository, with the PYTHONPATH there is here. The guest sees this machine's file system, read-only, by 9p;
# what it writes goes to tmpfs and is gone, but for /run/out, which is build/guest/SERIES/out here.
#
# Needs root, and apt for the first run; no KVM: emulation boots in about ten seconds. A guest that says
# nothing until GUEST_SECONDS are over is started once more. Exit code: that of the command; 3: no guest.
# With GUEST_COUNTS=1 the guest's clock counts instructions: one is a nanosecond.
set -euo pipefail
series=${1:?usage: run.sh SERIES COMMAND...}
shift
cd "$(dirname "$0")/../.."
repository=$PWD
work=build/guest/$series
limit=${GUEST_SECONDS:-300}

fail() {
	echo "tests/guest: $*" >&2
	exit 3
}

# Names of linux-image packages of the series that apt knows; not the real-time and cloud flavours.
images() {
	apt-cache pkgnames "linux-image-$series" |
		grep -E "^linux-image-${series//./\\.}\.[0-9]+(-[0-9]+|\+deb[0-9]+)-amd64\$" | sort -V
}

# The newest kernel of the series, unpacked to $work/kernel and not installed.
fetch_kernel() {
	local image
	image=$(images | tail -1) || true
	if [ -z "$image" ]; then
		apt-get update -qq || true
		image=$(images | tail -1) || fail "apt knows no kernel $series (linux-image-$series*-amd64): look at its sources"
	fi
	rm -rf "$work"/unpacked "$work"/linux-image-*.deb
	echo "fetching $image"
	if ! (cd "$work" && apt-get download -qq "$image") 2>"$work/apt.log"; then
		apt-get update -qq || true # an old list names a package that the archive has replaced
		image=$(images | tail -1)
		(cd "$work" && apt-get download -qq "$image") 2>"$work/apt.log" ||
			fail "apt cannot fetch $image: $(grep -m1 '^E:' "$work/apt.log" || echo 'it did not say why')"
	fi
	dpkg-deb -x "$work"/linux-image-*.deb "$work/unpacked"
	depmod -b "$work/unpacked" "$(ls "$work/unpacked/lib/modules")"
	mv "$work/unpacked" "$work/kernel"
	rm -f "$work"/linux-image-*.deb
}

# An initramfs that can do one thing: mount this machine's root by 9p and go there. It moves the mount to `/`, as
# nobody may make a user namespace in a chroot.
make_initramfs() {
	local initramfs=$work/initramfs at=0 module
	rm -rf "$initramfs"
	mkdir -p "$initramfs"/{bin,proc,sys,dev,host,modules}
	cp /bin/busybox "$initramfs/bin/"
	for module in 9p 9pnet_virtio virtio_pci; do
		modprobe -d "$work/kernel" -S "$release" --show-depends "$module"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
		at=$((at + 1))
		cp "$file" "$initramfs/modules/$(printf %02d $at).ko"
	done
	cat >"$initramfs/init" <<-EOF
		#!/bin/busybox sh
		b=/bin/busybox
		\$b mount -t proc proc /proc; \$b mount -t sysfs sys /sys; \$b mount -t devtmpfs dev /dev
		for module in /modules/*.ko; do \$b insmod \$module; done
		options=trans=virtio,version=9p2000.L,msize=512000
		\$b mount -t 9p -o ro,cache=loose,\$options host /host
		\$b mount -t proc proc /host/proc; \$b mount -t sysfs sys /host/sys; \$b mount -t devtmpfs dev /host/dev
		\$b mount -t tmpfs tmpfs /host/run; \$b mount -t tmpfs tmpfs /host/tmp
		\$b mkdir /host/run/out
		\$b mount -t 9p -o \$options out /host/run/out
		cd /host
		\$b mount --move . /
		\$b chroot . /bin/bash $repository/tests/guest/inside.sh $repository $work
		\$b poweroff -f
	EOF
	chmod +x "$initramfs/init"
	(cd "$initramfs" && find . | cpio -o -H newc 2>/dev/null) | gzip -1 >"$work/initramfs.gz"
}

# The guest's exit code, or nothing where it never came so far.
boot() {
	timeout "$limit" qemu-system-x86_64 -M pc -accel tcg -cpu max -m 2000 -smp 1 -nographic -no-reboot \
		${GUEST_COUNTS:+-icount shift=0,sleep=off} \
		-kernel "$work/kernel/boot/vmlinuz-$release" -initrd "$work/initramfs.gz" \
		-append "console=ttyS0 quiet panic=-1" \
		-fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
		-device virtio-9p-pci,fsdev=root,mount_tag=host \
		-fsdev local,id=out,path="$work/out",security_model=none \
		-device virtio-9p-pci,fsdev=out,mount_tag=out </dev/null >"$work/guest.log" 2>&1 || true
	cat "$work/out/exit-code" 2>/dev/null || true
}

[ "$(id -u)" = 0 ] || fail "needs root"
case $repository/ in /tmp/* | /run/*) fail "$repository is hidden in a guest, which has its own /tmp and /run" ;; esac
mkdir -p "$work"
exec 9>"$work/lock"
flock 9 # one guest of a series at a time
missing=$(for p in qemu-system-x86 busybox-static cpio kmod; do dpkg -s "$p" >/dev/null 2>&1 || echo "$p"; done)
if [ -n "$missing" ]; then
	apt-get update -qq || true
	# shellcheck disable=SC2086 # a list of names
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null ||
		fail "apt cannot install" $missing
fi
[ -d "$work/kernel" ] || fetch_kernel
release=$(ls "$work/kernel/lib/modules")
make_initramfs
printf '%q ' ${PYTHONPATH:+env PYTHONPATH="$PYTHONPATH"} "$@" >"$work/command"

for try in first second; do
	rm -rf "$work/out"
	mkdir -p "$work/out"
	code=$(boot)
	[ -z "$code" ] || break
	echo "tests/guest: the $try guest with kernel $release ended, or was ended after $limit s, without an answer" >&2
done
[ -n "$code" ] || { tail -20 "$work/guest.log" >&2; fail "no answer from a guest with kernel $release: $work/guest.log"; }
cat "$work/out/output"
exit "$code"

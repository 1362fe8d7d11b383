/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* pingpong.c - traffic between two namespaces, and the CPU that it took.
 *
 *     pingpong WAY CLIENT_NS SERVER_NS ADDRESS PORT OPERATIONS CPU KSOFTIRQD [SIZE [WARM]]
 *
 * WAY is udp (SIZE bytes there and back, or 64), request (the same on one TCP connection), connect
 * (a connection for each) or stream (64 KiB one way, in messages of SIZE bytes or in one). Both
 * ends run on one CPU, so that what the kernel does for a packet is done in their time, or in that
 * of KSOFTIRQD (a pid). Prints nanoseconds of CPU and of the clock for each operation. Ends with 1
 * where traffic does not come through. Begins to measure after WARM seconds.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHUNK   (64 * 1024)
#define WARM_UP 200

enum way { UDP, REQUEST, CONNECT, STREAM };

struct peer {
	struct sockaddr_storage address;
	socklen_t length;
};

static char buffer[CHUNK];
static int message = 64;

static void need(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "pingpong: %s: %s\n", what, errno ? strerror(errno) : "ended early");
	exit(1);
}

static void enter(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	need(fd >= 0 && !setns(fd, CLONE_NEWNET), path);
	close(fd);
}

static struct peer peer_of(const char *address, int port)
{
	struct peer peer = {.length = sizeof(struct sockaddr_in)};
	struct sockaddr_in *four = (struct sockaddr_in *)&peer.address;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)&peer.address;

	if (inet_pton(AF_INET, address, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons(port);
		return peer;
	}
	need(inet_pton(AF_INET6, address, &six->sin6_addr) == 1, address);
	six->sin6_family = AF_INET6;
	six->sin6_port = htons(port);
	peer.length = sizeof(*six);
	return peer;
}

/* Where the server listens: the port, on any address, as clients may ask for another one. */
static struct peer any_of(struct peer peer)
{
	if (peer.address.ss_family == AF_INET)
		((struct sockaddr_in *)&peer.address)->sin_addr.s_addr = INADDR_ANY;
	else
		((struct sockaddr_in6 *)&peer.address)->sin6_addr = in6addr_any;
	return peer;
}

static int made_socket(const struct peer *peer, enum way way)
{
	int fd = socket(peer->address.ss_family, way == UDP ? SOCK_DGRAM : SOCK_STREAM, 0), one = 1;
	struct timeval patience = {.tv_sec = 5};

	need(fd >= 0, "socket");
	if (way != UDP) {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

static int connected(const struct peer *peer, enum way way)
{
	int fd = made_socket(peer, way);

	need(!connect(fd, (const struct sockaddr *)&peer->address, peer->length), "connect");
	return fd;
}

/* Answers as long as there are questions. Whoever is asked for connections closes them first, so
 * that the asker's ports do not run out.
 */
static void serve_one(int fd, enum way way)
{
	ssize_t got;

	while ((got = recv(fd, buffer, way == STREAM ? CHUNK : message, 0)) > 0) {
		if (way != STREAM)
			need(send(fd, buffer, got, 0) == got, "answer");
		if (way == CONNECT)
			break;
	}
	close(fd);
}

static void serve(const struct peer *peer, enum way way, int ready)
{
	struct peer here = any_of(*peer);
	struct timeval forever = {};
	struct sockaddr_storage from;
	socklen_t length;
	ssize_t got;
	int fd = made_socket(peer, way), on;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof(forever));
	need(!bind(fd, (const struct sockaddr *)&here.address, here.length), "bind");
	need(way == UDP || !listen(fd, 128), "listen");
	need(write(ready, "r", 1) == 1, "ready");
	for (;;) {
		length = sizeof(from);
		if (way == UDP) {
			got = recvfrom(fd, buffer, CHUNK, 0, (struct sockaddr *)&from, &length);
			sendto(fd, buffer, got, 0, (struct sockaddr *)&from, length);
			continue;
		}
		on = accept(fd, 0, 0);
		if (on >= 0)
			serve_one(on, way);
	}
}

static void ask(int fd)
{
	need(send(fd, buffer, message, 0) == message, "send");
	for (ssize_t left = message, now; left; left -= now)
		need((now = recv(fd, buffer, left, 0)) > 0, "no answer");
}

static size_t part(ssize_t left)
{
	return left < message ? left : message;
}

static void operate(const struct peer *peer, enum way way, int *fd, long operations)
{
	for (long i = 0; i < operations; i++) {
		if (way == CONNECT) {
			*fd = connected(peer, way);
			ask(*fd);
			recv(*fd, buffer, 1, 0); /* until the server has closed */
			close(*fd);
		} else if (way == STREAM) {
			for (ssize_t sent = 0, now; sent < CHUNK; sent += now)
				need((now = send(*fd, buffer, part(CHUNK - sent), 0)) > 0,
				     "stream");
		} else {
			ask(*fd);
		}
	}
}

static long long ns(clockid_t clock)
{
	struct timespec t;

	need(!clock_gettime(clock, &t), "clock");
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* The first number of the scheduler's account: nanoseconds on a CPU. */
static long long softirq_ns(const char *pid)
{
	char path[64];
	long long spent = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/schedstat", pid);
	file = fopen(path, "r");
	need(file && fscanf(file, "%lld", &spent) == 1, path);
	fclose(file);
	return spent;
}

static enum way way_of(const char *word)
{
	static const char *const words[] = {"udp", "request", "connect", "stream"};

	for (int i = 0; i < 4; i++)
		if (!strcmp(word, words[i]))
			return i;
	errno = EINVAL;
	need(0, word);
	return UDP;
}

int main(int argc, char **argv)
{
	long long spent, began, warm;
	struct peer peer;
	clockid_t theirs;
	cpu_set_t cpus;
	int ready[2], fd = -1;
	enum way way;
	pid_t server;
	long n;

	errno = EINVAL;
	need(
	    argc >= 9 && argc <= 11,
	    "expected WAY CLIENT_NS SERVER_NS ADDRESS PORT OPERATIONS CPU KSOFTIRQD [SIZE [WARM]]");
	way = way_of(argv[1]);
	if (argc > 9 || way == STREAM)
		message = argc > 9 ? atoi(argv[9]) : CHUNK;
	need(message > 0 && message <= CHUNK, "SIZE");
	peer = peer_of(argv[4], atoi(argv[5]));
	n = atol(argv[6]);
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[7]), &cpus);
	need(!sched_setaffinity(0, sizeof(cpus), &cpus) && !pipe(ready), "set up");
	server = fork();
	need(server >= 0, "fork");
	if (!server) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		enter(argv[3]);
		serve(&peer, way, ready[1]);
	}
	close(ready[1]);
	errno = 0;
	need(read(ready[0], buffer, 1) == 1, "the server does not start");
	enter(argv[2]);
	if (way != CONNECT)
		fd = connected(&peer, way);
	warm = argc > 10 ? atoll(argv[10]) * 1000000000 : 0;
	began = ns(CLOCK_MONOTONIC);
	do
		operate(&peer, way, &fd, WARM_UP);
	while (ns(CLOCK_MONOTONIC) - began < warm);
	need(!clock_getcpuclockid(server, &theirs), "the server's clock");
	began = ns(CLOCK_MONOTONIC);
	spent = ns(CLOCK_PROCESS_CPUTIME_ID) + ns(theirs) + softirq_ns(argv[8]);
	operate(&peer, way, &fd, n);
	spent = ns(CLOCK_PROCESS_CPUTIME_ID) + ns(theirs) + softirq_ns(argv[8]) - spent;
	began = ns(CLOCK_MONOTONIC) - began;
	printf("%.1f %.1f\n", (double)spent / n, (double)began / n);
	kill(server, SIGKILL);
	waitpid(server, 0, 0);
	return 0;
}

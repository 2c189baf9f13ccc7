/* A disk that fails when it is told to: stands before the C library's calls of whatever program it is loaded into.
 *
 * FAILING_DISK names a file. While that contains one of these words, the calls on files with direct I/O fail:
 *   reads    pread64 with EIO
 *   writes   pwrite64 with EIO
 *   full     pwrite64 with ENOSPC
 *   syncs    fdatasync with EIO, and msync of whatever
 * There is no io_uring, whose reads no call can stand before: threads read instead. A program that asks the system without the
 * C library for msync is caught by a filter that lets through what this shim asks for itself (x86-64).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* The sixth argument of the shim's own calls. */
#define OWN 0x0d15c

static int is_told(const char *how)
{
	char said[64] = "";
	const char *path = getenv("FAILING_DISK");
	if (!path)
		return 0;
	int control = open(path, O_RDONLY | O_CLOEXEC);
	if (control < 0)
		return 0;
	ssize_t length = read(control, said, sizeof said - 1);
	close(control);
	return 0 < length && strstr(said, how) != NULL;
}

static int fails(int fd, const char *how)
{
	int flags = fcntl(fd, F_GETFL);
	return 0 <= flags && (flags & O_DIRECT) && is_told(how);
}

#ifdef __x86_64__
static void on_msync(int signal, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	int before = errno;
	long answer = -EIO;
	(void)signal, (void)info;
	if (!is_told("syncs")) {
		static long (*next)(long, ...);
		if (!next)
			next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
		answer = next(SYS_msync, registers[REG_RDI], registers[REG_RSI], registers[REG_RDX], 0L, 0L, (long)OWN);
		if (answer < 0)
			answer = -errno;
	}
	registers[REG_RAX] = answer;
	errno = before;
}

__attribute__((constructor)) static void stand_before_msync(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_msync, 0, 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
	};
	struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
	struct sigaction action = { .sa_sigaction = on_msync, .sa_flags = SA_SIGINFO };
	if (sigaction(SIGSYS, &action, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("failing_disk");
		_exit(1);
	}
}
#endif

ssize_t pread64(int fd, void *into, size_t count, off64_t at)
{
	static ssize_t (*next)(int, void *, size_t, off64_t);
	if (!next)
		next = dlsym(RTLD_NEXT, "pread64");
	if (fails(fd, "reads")) {
		errno = EIO;
		return -1;
	}
	return next(fd, into, count, at);
}

ssize_t pwrite64(int fd, const void *from, size_t count, off64_t at)
{
	static ssize_t (*next)(int, const void *, size_t, off64_t);
	if (!next)
		next = dlsym(RTLD_NEXT, "pwrite64");
	if (fails(fd, "writes") || fails(fd, "full")) {
		errno = fails(fd, "full") ? ENOSPC : EIO;
		return -1;
	}
	return next(fd, from, count, at);
}

int fdatasync(int fd)
{
	static int (*next)(int);
	if (!next)
		next = dlsym(RTLD_NEXT, "fdatasync");
	if (fails(fd, "syncs")) {
		errno = EIO;
		return -1;
	}
	return next(fd);
}

long syscall(long number, ...)
{
	static long (*next)(long, ...);
	va_list list;
	long a[6];
	if (!next)
		next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_io_uring_setup) {
		errno = EPERM;
		return -1;
	}
	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

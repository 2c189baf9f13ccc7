/* A disk that fails when it is told to: stands before the C library's calls of whatever program it is loaded into.
 *
 * FAILING_DISK names a file. While that contains one of these words, the calls on files with direct I/O fail:
 *   reads    pread64 with EIO
 *   writes   pwrite64 with EIO
 *   full     pwrite64 with ENOSPC
 *   syncs    fdatasync with EIO
 * There is no io_uring, whose reads no call can stand before: threads read instead.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fails(int fd, const char *how)
{
	char said[64] = "";
	const char *path = getenv("FAILING_DISK");
	int flags = fcntl(fd, F_GETFL);
	if (!path || flags < 0 || !(flags & O_DIRECT))
		return 0;
	int control = open(path, O_RDONLY | O_CLOEXEC);
	if (control < 0)
		return 0;
	ssize_t length = read(control, said, sizeof said - 1);
	close(control);
	return 0 < length && strstr(said, how) != NULL;
}

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

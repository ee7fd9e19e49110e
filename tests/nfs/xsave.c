/*
 * Preloaded into linux.uml. On processors whose XSAVE area is longer than the one that User-mode
 * Linux was built for, the kernel of the machine refuses to set the floating point registers of a
 * guest's process with EFAULT, and the guest panics. This pads such a request to the length that
 * the machine uses; what the guest does not know of is left in its initial state.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	PEEK_FIRST = 1,
	PEEK_LAST = 3,
	GET_REGS = 0x4204,
	SET_REGS = 0x4205,
	XSTATE = 0x202,
	HEADER = 512,	/* the mask of the components that are not in their initial state */
	SMALLEST = 576
};

static uint8_t area[1 << 16] __attribute__((aligned(64)));
static size_t machine_len;
static size_t guest_len;
static uint64_t guest_mask;

static long call(long request, long pid, void *addr, void *data)
{
	return syscall(SYS_ptrace, request, pid, addr, data);
}

/* Which components lie wholly in the first `len` bytes of the standard layout. */
static uint64_t components_in(size_t len)
{
	uint64_t mask = 3;	/* x87 and SSE are in the legacy part */
	unsigned size, offset, flags, unused;
	for (unsigned n = 2; n < 63; n++) {
		if (!__get_cpuid_count(13, n, &size, &offset, &flags, &unused))
			break;
		int by_process = !(flags & 1);
		if (size && by_process && (size_t)offset + size <= len)
			mask |= (uint64_t)1 << n;
	}
	return mask;
}

static long set_xstate(long pid, void *addr, struct iovec *given)
{
	if (machine_len == 0) {
		struct iovec probe = {area, sizeof area};
		if (call(GET_REGS, pid, addr, &probe) == 0)
			machine_len = probe.iov_len;
	}
	if (given->iov_len < SMALLEST || given->iov_len >= machine_len)
		return call(SET_REGS, pid, addr, given);
	if (guest_len != given->iov_len) {
		guest_len = given->iov_len;
		guest_mask = components_in(guest_len);
	}
	uint64_t mask;
	memcpy(area, given->iov_base, guest_len);
	memset(area + guest_len, 0, machine_len - guest_len);
	memcpy(&mask, area + HEADER, sizeof mask);
	mask &= guest_mask;
	memcpy(area + HEADER, &mask, sizeof mask);
	struct iovec whole = {area, machine_len};
	return call(SET_REGS, pid, addr, &whole);
}

long ptrace(int request, ...)
{
	va_list rest;
	va_start(rest, request);
	long pid = va_arg(rest, int);
	void *addr = va_arg(rest, void *);
	void *data = va_arg(rest, void *);
	va_end(rest);
	if (request == SET_REGS && (uintptr_t)addr == XSTATE)
		return set_xstate(pid, addr, data);
	if (request >= PEEK_FIRST && request <= PEEK_LAST) {
		long word;	/* the system call stores it, the function of libc returns it */
		long failed = call(request, pid, addr, &word);
		return failed ? failed : word;
	}
	return call(request, pid, addr, data);
}

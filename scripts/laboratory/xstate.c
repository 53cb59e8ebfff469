/*
 * Lets User-Mode-Linux run on processors whose register state is larger than the 2,696 bytes that UML knows (AMX).
 *
 * UML before 6.13 keeps the extended registers of its processes in 2,696 bytes (arch/x86/um/user-offsets.c), enough up
 * to AVX-512. Linux takes PTRACE_SETREGSET of NT_X86_XSTATE only whole (arch/x86/kernel/fpu/regset.c, xstateregs_set),
 * so on a processor with AMX no process of the guest can be started: a panic before its first instruction. This is put
 * before libc's ptrace by LD_PRELOAD and makes a short set whole with the bytes that the process has; what lies beyond
 * is AMX's, which no process has asked to use.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define WHOLE 65536 /* more than any processor has */

typedef long (*ptrace_type)(int, int, void *, void *);

long ptrace(enum __ptrace_request request, ...)
{
	static ptrace_type libc_ptrace;
	static __thread char whole[WHOLE];
	va_list arguments;
	va_start(arguments, request);
	int pid = va_arg(arguments, int);
	void *address = va_arg(arguments, void *);
	void *data = va_arg(arguments, void *);
	va_end(arguments);

	if (!libc_ptrace)
		libc_ptrace = (ptrace_type)dlsym(RTLD_NEXT, "ptrace");
	if (request == PTRACE_SETREGSET && address == (void *)NT_X86_XSTATE) {
		struct iovec *given = data, all = {whole, WHOLE};
		long result = libc_ptrace(PTRACE_GETREGSET, pid, address, &all);
		if (result < 0)
			return result;
		if (given->iov_len < all.iov_len) {
			memcpy(whole, given->iov_base, given->iov_len);
			return libc_ptrace(request, pid, address, &all);
		}
	}
	return libc_ptrace(request, pid, address, data);
}

/* Arguments of calls about memory. */
#include "syscall/decode_internal.h"

#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/shm.h>

#include "base/mem.h"

void print_brk(struct decoding *d, unsigned arg)
{
	print_address(d, arg);
}

void print_prot(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {NAMED(PROT_NONE),
					     NAMED(PROT_READ),
					     NAMED(PROT_WRITE),
					     NAMED(PROT_EXEC),
					     NAMED(PROT_GROWSDOWN),
					     NAMED(PROT_GROWSUP),
					     {}};

	text_flags(d->out, names, decoding_value(d, arg), "PROT_");
}

void print_map_flags(struct decoding *d, unsigned arg)
{
	static const struct named types[] = {{MAP_FILE, "MAP_FILE"},
					     NAMED(MAP_SHARED),
					     NAMED(MAP_PRIVATE),
					     NAMED(MAP_SHARED_VALIDATE),
					     {}};
	static const struct named names[] = {
		NAMED(MAP_FIXED),     NAMED(MAP_ANONYMOUS),
#ifdef MAP_32BIT
		NAMED(MAP_32BIT),
#endif
		NAMED(MAP_NORESERVE), NAMED(MAP_POPULATE),        NAMED(MAP_NONBLOCK),
		NAMED(MAP_GROWSDOWN), NAMED(MAP_DENYWRITE),       NAMED(MAP_EXECUTABLE),
		NAMED(MAP_LOCKED),    NAMED(MAP_STACK),           NAMED(MAP_HUGETLB),
		NAMED(MAP_SYNC),      NAMED(MAP_FIXED_NOREPLACE), {},
	};
	uint64_t v = decoding_value(d, arg);

	text_name(d->out, types, v & MAP_TYPE, "MAP_");
	v &= ~(uint64_t)MAP_TYPE;
	if (v) {
		text_add(d->out, "|");
		text_flags(d->out, names, v, "MAP_");
	}
}

void print_map_offset(struct decoding *d, unsigned arg)
{
	text_hex(d->out, decoding_value(d, arg));
}

void print_advice(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(MADV_NORMAL),          NAMED(MADV_RANDOM),
		NAMED(MADV_SEQUENTIAL),      NAMED(MADV_WILLNEED),
		NAMED(MADV_DONTNEED),        NAMED(MADV_FREE),
		NAMED(MADV_REMOVE),          NAMED(MADV_DONTFORK),
		NAMED(MADV_DOFORK),          NAMED(MADV_MERGEABLE),
		NAMED(MADV_UNMERGEABLE),     NAMED(MADV_HUGEPAGE),
		NAMED(MADV_NOHUGEPAGE),      NAMED(MADV_DONTDUMP),
		NAMED(MADV_DODUMP),          NAMED(MADV_WIPEONFORK),
		NAMED(MADV_KEEPONFORK),      NAMED(MADV_COLD),
		NAMED(MADV_PAGEOUT),         {22, "MADV_POPULATE_READ"},
		{23, "MADV_POPULATE_WRITE"}, {24, "MADV_DONTNEED_LOCKED"},
		{25, "MADV_COLLAPSE"},       {},
	};

	text_name(d->out, names, (uint32_t)decoding_value(d, arg), "MADV_");
}

void print_mremap_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(MREMAP_MAYMOVE), NAMED(MREMAP_FIXED), {4, "MREMAP_DONTUNMAP"}, {}};

	text_flags(d->out, names, decoding_value(d, arg), "MREMAP_");
}

/* An argument only where the mapping is moved to a given place. */
void print_mremap_to(struct decoding *d, unsigned arg)
{
	if (decoding_value(d, arg - 1) & (MREMAP_FIXED | 4))
		print_address(d, arg);
}

void print_msync_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(MS_SYNC), NAMED(MS_ASYNC), NAMED(MS_INVALIDATE), {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "MS_");
}

void print_rseq_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {{1, "RSEQ_FLAG_UNREGISTER"}, {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "RSEQ_FLAG_");
}

void print_membarrier(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(MEMBARRIER_CMD_QUERY),
		NAMED(MEMBARRIER_CMD_GLOBAL),
		NAMED(MEMBARRIER_CMD_GLOBAL_EXPEDITED),
		NAMED(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED),
		NAMED(MEMBARRIER_CMD_PRIVATE_EXPEDITED),
		NAMED(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED),
		NAMED(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE),
		NAMED(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE),
		{},
	};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "MEMBARRIER_CMD_");
}

void print_pkey_rights(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		{1, "PKEY_DISABLE_ACCESS"}, {2, "PKEY_DISABLE_WRITE"}, {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "PKEY_");
}

/* ---- shared memory ---- */

void print_shm_key(struct decoding *d, unsigned arg)
{
	uint32_t key = (uint32_t)decoding_value(d, arg);

	if (key == IPC_PRIVATE)
		text_add(d->out, "IPC_PRIVATE");
	else
		text_hex(d->out, key);
}

/* Flags, and who may use it: IPC_CREAT|0600 */
void print_shm_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(IPC_CREAT), NAMED(IPC_EXCL), NAMED(SHM_HUGETLB), NAMED(SHM_NORESERVE), {}};
	uint32_t v = (uint32_t)decoding_value(d, arg);

	if (v & ~0777u) {
		text_flags(d->out, names, v & ~0777u, NULL);
		text_add(d->out, "|");
	}
	text_addf(d->out, "%#03o", v & 0777u);
}

void print_shm_command(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(IPC_RMID),   NAMED(IPC_SET),  NAMED(IPC_STAT), NAMED(SHM_LOCK),
		NAMED(SHM_UNLOCK), NAMED(SHM_STAT), NAMED(SHM_INFO), {}};

	text_name(d->out, names, (uint32_t)decoding_value(d, arg), "SHM_");
}

void print_shmat_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(SHM_RDONLY), NAMED(SHM_RND), NAMED(SHM_REMAP), NAMED(SHM_EXEC), {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "SHM_");
}

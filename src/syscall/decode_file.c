/* Arguments of calls about files and descriptors. */
#include "syscall/decode_internal.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/memfd.h>
#include <linux/stat.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

#define KERNEL_O_LARGEFILE 0100000 /* glibc's is 0 where it is always on */
#define KERNEL_O_TMPFILE   020000000
#define KERNEL_O_SYNC      04000000 /* O_SYNC without O_DSYNC */

void print_open_flags_value(struct decode_text *t, uint64_t flags)
{
	static const char *const modes[] = {"O_RDONLY", "O_WRONLY", "O_RDWR", "O_ACCMODE"};
	static const struct named names[] = {
		NAMED(O_CREAT),
		NAMED(O_EXCL),
		NAMED(O_NOCTTY),
		NAMED(O_TRUNC),
		NAMED(O_APPEND),
		NAMED(O_NONBLOCK),
		NAMED(O_SYNC),
		NAMED(O_DSYNC),
		{O_ASYNC, "FASYNC"},
		NAMED(O_DIRECT),
		{KERNEL_O_LARGEFILE, "O_LARGEFILE"},
		NAMED(O_NOFOLLOW),
		NAMED(O_NOATIME),
		NAMED(O_CLOEXEC),
		NAMED(O_PATH),
		NAMED(O_TMPFILE),
		NAMED(O_DIRECTORY),
		{KERNEL_O_TMPFILE, "__O_TMPFILE"},
		{KERNEL_O_SYNC, "__O_SYNC"},
		{},
	};

	text_add(t, modes[flags & O_ACCMODE]);
	flags &= ~(uint64_t)O_ACCMODE;
	if (flags) {
		text_add_bytes(t, "|", 1);
		text_flags(t, names, flags, NULL);
	}
}

void print_open_flags(struct decoding *d, unsigned arg)
{
	print_open_flags_value(d->out, (uint32_t)decoding_value(d, arg));
}

/* Only where a file may be created: else it is not an argument. */
void print_open_mode(struct decoding *d, unsigned arg)
{
	uint64_t flags = decoding_value(d, arg - 1);

	if ((flags & O_CREAT) || (flags & KERNEL_O_TMPFILE))
		print_octal(d, arg);
}

void print_dup_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {NAMED(O_NONBLOCK), NAMED(O_CLOEXEC), {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "O_");
}

void print_pipe_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(O_NONBLOCK), NAMED(O_DIRECT), NAMED(O_CLOEXEC), {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "O_");
}

void print_pipe(struct decoding *d, unsigned arg)
{
	const int *fds = decoding_chunk(d, arg, 2 * sizeof(*fds));

	if (!fds) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "[");
	print_fd_value(d, fds[0]);
	text_add(d->out, ", ");
	print_fd_value(d, fds[1]);
	text_add(d->out, "]");
}

/* ---- what a file is ---- */

void print_mode_value(struct decode_text *t, uint64_t mode)
{
	static const struct named kinds[] = {
		NAMED(S_IFREG), NAMED(S_IFDIR), NAMED(S_IFLNK),  NAMED(S_IFCHR),
		NAMED(S_IFBLK), NAMED(S_IFIFO), NAMED(S_IFSOCK), {},
	};
	static const struct named bits[] = {NAMED(S_ISUID), NAMED(S_ISGID), NAMED(S_ISVTX), {}};
	const char *kind = named_find(kinds, mode & S_IFMT);

	if (kind)
		text_addf(t, "%s|", kind);
	for (const struct named *b = bits; b->name; b++)
		if (mode & b->value)
			text_addf(t, "%s|", b->name);
	text_addf(t, "%#03llo", (unsigned long long)(mode & 0777));
}

void print_stat(struct decoding *d, unsigned arg)
{
	const struct stat *s = decoding_chunk(d, arg, sizeof(*s));

	if (!s) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "{st_mode=");
	print_mode_value(d->out, s->st_mode);
	if (S_ISCHR(s->st_mode) || S_ISBLK(s->st_mode))
		text_addf(d->out, ", st_rdev=makedev(%#x, %#x)", major(s->st_rdev),
			  minor(s->st_rdev));
	else
		text_addf(d->out, ", st_size=%lld", (long long)s->st_size);
	text_add(d->out, ", ...}");
}

void print_at_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(AT_SYMLINK_NOFOLLOW), NAMED(AT_REMOVEDIR),  NAMED(AT_SYMLINK_FOLLOW),
		NAMED(AT_NO_AUTOMOUNT),     NAMED(AT_EMPTY_PATH), {},
	};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "AT_");
}

void print_unlink_flags(struct decoding *d, unsigned arg)
{
	print_at_flags(d, arg);
}

void print_link_flags(struct decoding *d, unsigned arg)
{
	print_at_flags(d, arg);
}

/* AT_EACCESS is what AT_REMOVEDIR is to unlinkat. */
void print_access_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(AT_SYMLINK_NOFOLLOW), NAMED(AT_EACCESS), NAMED(AT_EMPTY_PATH), {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "AT_");
}

void print_access(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(F_OK), NAMED(R_OK), NAMED(W_OK), NAMED(X_OK), {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "?_OK");
}

void print_whence(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {NAMED(SEEK_SET),  NAMED(SEEK_CUR),  NAMED(SEEK_END),
					     NAMED(SEEK_DATA), NAMED(SEEK_HOLE), {}};

	text_name(d->out, names, (uint32_t)decoding_value(d, arg), "SEEK_");
}

void print_statx_flags(struct decoding *d, unsigned arg)
{
	static const struct named sync[] = {NAMED(AT_STATX_SYNC_AS_STAT),
					    NAMED(AT_STATX_FORCE_SYNC),
					    NAMED(AT_STATX_DONT_SYNC),
					    {}};
	static const struct named names[] = {
		NAMED(AT_SYMLINK_NOFOLLOW), NAMED(AT_REMOVEDIR),  NAMED(AT_SYMLINK_FOLLOW),
		NAMED(AT_NO_AUTOMOUNT),     NAMED(AT_EMPTY_PATH), {},
	};
	uint64_t v = (uint32_t)decoding_value(d, arg);

	text_name(d->out, sync, v & AT_STATX_SYNC_TYPE, "AT_STATX_");
	v &= ~(uint64_t)AT_STATX_SYNC_TYPE;
	if (v) {
		text_add(d->out, "|");
		text_flags(d->out, names, v, "AT_");
	}
}

static const struct named statx_masks[] = {
	NAMED(STATX_ALL),
	NAMED(STATX_BASIC_STATS),
	NAMED(STATX_TYPE),
	NAMED(STATX_MODE),
	NAMED(STATX_NLINK),
	NAMED(STATX_UID),
	NAMED(STATX_GID),
	NAMED(STATX_ATIME),
	NAMED(STATX_MTIME),
	NAMED(STATX_CTIME),
	NAMED(STATX_INO),
	NAMED(STATX_SIZE),
	NAMED(STATX_BLOCKS),
	NAMED(STATX_BTIME),
	NAMED(STATX_MNT_ID),
	{0x2000, "STATX_DIOALIGN"},
	{},
};

void print_statx_mask(struct decoding *d, unsigned arg)
{
	text_flags(d->out, statx_masks, (uint32_t)decoding_value(d, arg), "STATX_");
}

void print_statx(struct decoding *d, unsigned arg)
{
	const struct statx *s = decoding_chunk(d, arg, sizeof(*s));

	if (!s) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "{stx_mask=");
	text_flags(d->out, statx_masks, s->stx_mask, "STATX_");
	text_addf(d->out, ", stx_attributes=%#llx", (unsigned long long)s->stx_attributes);
	text_add(d->out, ", stx_mode=");
	print_mode_value(d->out, s->stx_mode);
	text_addf(d->out, ", stx_size=%llu, ...}", (unsigned long long)s->stx_size);
}

void print_statfs(struct decoding *d, unsigned arg)
{
	static const struct named types[] = {
		{0xef53, "EXT2_SUPER_MAGIC"},
		{0x01021994, "TMPFS_MAGIC"},
		{0x9fa0, "PROC_SUPER_MAGIC"},
		{0x62656572, "SYSFS_MAGIC"},
		{0x794c7630, "OVERLAYFS_SUPER_MAGIC"},
		{0x58465342, "XFS_SUPER_MAGIC"},
		{0x9123683e, "BTRFS_SUPER_MAGIC"},
		{0x27e0eb, "CGROUP_SUPER_MAGIC"},
		{0x63677270, "CGROUP2_SUPER_MAGIC"},
		{0x6969, "NFS_SUPER_MAGIC"},
		{0x1cd1, "DEVPTS_SUPER_MAGIC"},
		{0x64626720, "DEBUGFS_MAGIC"},
		{0x74726163, "TRACEFS_MAGIC"},
		{0xcafe4a11, "BPF_FS_MAGIC"},
		{0x01021997, "V9FS_MAGIC"},
		{0x958458f6, "HUGETLBFS_MAGIC"},
		{0x65735546, "FUSE_SUPER_MAGIC"},
		{0xf97cff8c, "SELINUX_MAGIC"},
		{},
	};
	const struct statfs *s = decoding_chunk(d, arg, sizeof(*s));

	if (!s) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "{f_type=");
	text_name(d->out, types, (uint64_t)s->f_type, "");
	text_addf(d->out,
		  ", f_bsize=%lu, f_blocks=%lu, f_bfree=%lu, f_bavail=%lu, f_files=%lu, "
		  "f_ffree=%lu, f_fsid={val=[%#x, %#x]}, f_namelen=%lu, f_frsize=%lu, f_flags=",
		  (unsigned long)s->f_bsize, (unsigned long)s->f_blocks, (unsigned long)s->f_bfree,
		  (unsigned long)s->f_bavail, (unsigned long)s->f_files, (unsigned long)s->f_ffree,
		  (unsigned)s->f_fsid.__val[0], (unsigned)s->f_fsid.__val[1],
		  (unsigned long)s->f_namelen, (unsigned long)s->f_frsize);
	static const struct named flags[] = {
		{0x20, "ST_VALID"},
		{1, "ST_RDONLY"},
		{2, "ST_NOSUID"},
		{4, "ST_NODEV"},
		{8, "ST_NOEXEC"},
		{0x10, "ST_SYNCHRONOUS"},
		{0x40, "ST_MANDLOCK"},
		{0x400, "ST_NOATIME"},
		{0x800, "ST_NODIRATIME"},
		{0x1000, "ST_RELATIME"},
		{},
	};
	text_flags(d->out, flags, (uint64_t)s->f_flags, "ST_");
	text_add(d->out, "}");
}

void print_dirents(struct decoding *d, unsigned arg)
{
	const uint32_t *count = decoding_chunk(d, arg, sizeof(*count));

	print_address(d, arg);
	if (count)
		text_addf(d->out, " /* %u entries */", *count);
}

/* ---- what is done with it ---- */

void print_flock(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(LOCK_SH), NAMED(LOCK_EX), NAMED(LOCK_UN), NAMED(LOCK_NB), {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "LOCK_");
}

void print_rename_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(RENAME_NOREPLACE), NAMED(RENAME_EXCHANGE), NAMED(RENAME_WHITEOUT), {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "RENAME_");
}

void print_advice_file(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {NAMED(POSIX_FADV_NORMAL),
					     NAMED(POSIX_FADV_RANDOM),
					     NAMED(POSIX_FADV_SEQUENTIAL),
					     NAMED(POSIX_FADV_WILLNEED),
					     NAMED(POSIX_FADV_DONTNEED),
					     NAMED(POSIX_FADV_NOREUSE),
					     {}};

	text_name(d->out, names, (uint32_t)decoding_value(d, arg), "POSIX_FADV_");
}

void print_offset_pointer(struct decoding *d, unsigned arg)
{
	const int64_t *before = decoding_part(d, arg, TRACE_MAIN, true, 8, NULL);
	const int64_t *after = decoding_chunk(d, arg, 8);

	if (!before) {
		print_address(d, arg);
		return;
	}
	text_addf(d->out, "[%lld]", (long long)*before);
	if (after && *after != *before && !decode_failure(d->r))
		text_addf(d->out, " => [%lld]", (long long)*after);
}

void print_offset_in(struct decoding *d, unsigned arg)
{
	const int64_t *before = decoding_part(d, arg, TRACE_MAIN, true, 8, NULL);

	if (before)
		text_addf(d->out, "[%lld]", (long long)*before);
	else
		print_address(d, arg);
}

void print_sync_range_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {NAMED(SYNC_FILE_RANGE_WAIT_BEFORE),
					     NAMED(SYNC_FILE_RANGE_WRITE),
					     NAMED(SYNC_FILE_RANGE_WAIT_AFTER),
					     {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "SYNC_FILE_RANGE_");
}

void print_unmount_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(MNT_FORCE), NAMED(MNT_DETACH), NAMED(MNT_EXPIRE), NAMED(UMOUNT_NOFOLLOW), {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "MNT_");
}

void print_watch_events(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {NAMED(IN_ACCESS),
					     NAMED(IN_MODIFY),
					     NAMED(IN_ATTRIB),
					     NAMED(IN_CLOSE_WRITE),
					     NAMED(IN_CLOSE_NOWRITE),
					     NAMED(IN_OPEN),
					     NAMED(IN_MOVED_FROM),
					     NAMED(IN_MOVED_TO),
					     NAMED(IN_CREATE),
					     NAMED(IN_DELETE),
					     NAMED(IN_DELETE_SELF),
					     NAMED(IN_MOVE_SELF),
					     NAMED(IN_ONLYDIR),
					     NAMED(IN_DONT_FOLLOW),
					     NAMED(IN_EXCL_UNLINK),
					     NAMED(IN_MASK_ADD),
					     NAMED(IN_ISDIR),
					     {0x80000000, "IN_ONESHOT"},
					     {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "IN_");
}

void print_fallocate_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {{1, "FALLOC_FL_KEEP_SIZE"},
					     {2, "FALLOC_FL_PUNCH_HOLE"},
					     {4, "FALLOC_FL_NO_HIDE_STALE"},
					     {8, "FALLOC_FL_COLLAPSE_RANGE"},
					     {16, "FALLOC_FL_ZERO_RANGE"},
					     {32, "FALLOC_FL_INSERT_RANGE"},
					     {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "FALLOC_FL_");
}

void print_memfd_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(MFD_CLOEXEC), NAMED(MFD_ALLOW_SEALING), NAMED(MFD_HUGETLB), {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "MFD_");
}

void print_xattr_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {NAMED(XATTR_CREATE), NAMED(XATTR_REPLACE), {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "XATTR_");
}

void print_timespecs(struct decoding *d, unsigned arg)
{
	const struct timespec *t = decoding_chunk(d, arg, 2 * sizeof(*t));

	if (!t) {
		print_address(d, arg);
		return;
	}
	for (int i = 0; i < 2; i++) {
		text_add(d->out, i ? ", " : "[");
		if (t[i].tv_nsec == UTIME_NOW)
			text_add(d->out, "UTIME_NOW");
		else if (t[i].tv_nsec == UTIME_OMIT)
			text_add(d->out, "UTIME_OMIT");
		else
			print_timespec_value(d->out, &t[i]);
	}
	text_add(d->out, "]");
}

void print_watch_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		{O_NONBLOCK, "IN_NONBLOCK"}, {O_CLOEXEC, "IN_CLOEXEC"}, {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "IN_");
}

void print_rw_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {{1, "RWF_HIPRI"},  {2, "RWF_DSYNC"},   {4, "RWF_SYNC"},
					     {8, "RWF_NOWAIT"}, {16, "RWF_APPEND"}, {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "RWF_");
}

void print_close_range_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		{2, "CLOSE_RANGE_UNSHARE"}, {4, "CLOSE_RANGE_CLOEXEC"}, {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "CLOSE_RANGE_");
}

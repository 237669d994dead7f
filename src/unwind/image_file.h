/*
 * image_file: an image as bytes that can be kept, and back.
 *
 * All numbers little-endian, as the machine has them:
 *
 *	struct image_file_head
 *	rules of this file          rule_count * 16 bytes; the first is UNWIND_UNKNOWN
 *	rows of each page           page_count * 4 bytes
 *	rows                        row_count * 4 bytes; their rules are positions in the list above
 *
 * The checksum finds damage; what it does not find, because somebody meant it, is caught by looking
 * at every field: bytes of any kind give a well-formed image or an error.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "unwind/image.h"

#define IMAGE_FILE_VERSION 11 /* raise it also when what cfi.c makes of a table changes */
#define IMAGE_FILE_MAX                                                                             \
	(sizeof(struct image_file_head) + UNWIND_RULES_MAX * sizeof(struct unwind_rule) +          \
	 IMAGE_PAGES_MAX * 8ul + CFI_ROWS_MAX * 4ul)

/* Which tables an image was made from: a hash of them that starts from a random number. */
struct image_file_origin {
	uint64_t seed, hash[2];
	/* … and in which file: as long as that is the same, so are they. */
	uint64_t device, inode, size, changed_ns;
};

struct image_file_head {
	char magic[8];
	uint64_t checksum; /* XXH3 of all that follows it */
	uint32_t version;
	uint32_t rule_count, page_count, row_count;
	uint64_t base_page;
	struct image_file_origin origin;
	uint32_t functions, rows, other, broken; /* struct cfi_stats */
};

_Static_assert(sizeof(struct image_file_head) == 112, "no padding");

/* The bytes of an image; caller frees. */
void *image_file_encode(const struct image *im, const struct rules *rules,
			const struct image_file_origin *origin, size_t *ret_len);

/* The checksum that `len` bytes ought to have; they hold a head at least. */
uint64_t image_file_checksum(const void *data, size_t len);

/* The image in `len` bytes aligned to 8, its rules put into `rules`. 0, or -EBADMSG. */
int image_file_decode(const void *data, size_t len, struct rules *rules, struct image **ret);

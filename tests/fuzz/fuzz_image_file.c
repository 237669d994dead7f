/* Any bytes, with the sum that they ought to have, as a file of the cache. */
#include "image.h"

#include "unwind/image_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image_file_head *h = mem_dup(data, size);
	struct rules rules;
	struct image *im;

	rules_init(&rules);
	if (size >= sizeof(*h))
		h->checksum = image_file_checksum(h, size);
	if (image_file_decode(h, size, &rules, &im) == 0) {
		check_image(im, &rules);
		image_free(im);
	}
	rules_done(&rules);
	free(h);
	return 0;
}

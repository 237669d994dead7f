/* Nests of functions that are always inlined: anvil <- swing <- strike <- spin, quench <- strike. */
extern "C" {
#include "workload.h"
}

#define INLINE inline __attribute__((always_inline))

namespace forge
{

INLINE uint64_t strike(uint64_t until)
{
	return workload_spin(until);
}

struct Hammer {
	INLINE uint64_t swing(uint64_t until) const
	{
		return strike(until);
	}
};

} // namespace forge

extern "C" NOINLINE uint64_t anvil(uint64_t until)
{
	return forge::Hammer().swing(until); // a line that is looked for
}

extern "C" NOINLINE uint64_t quench(uint64_t until)
{
	return forge::strike(until);
}

int main(int argc, char **argv)
{
	struct workload_part parts[] = {
		{"anvil", 0.70, anvil, 0},
		{"quench", 0.30, quench, 0},
	};

	workload_ready();
	workload_run(parts, 2, (uint64_t)((argc > 1 ? atof(argv[1]) : 0) * 1e9));
	workload_report(parts, 2);
}

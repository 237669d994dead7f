/* shares in C++: a template, a method in a namespace, a lambda, and one that throws and catches. */
#include <functional>
#include <stdexcept>
#include <string>

extern "C" {
#include "workload.h"
}

namespace kiln
{

template <typename T, int N> NOINLINE T fire(T until)
{
	return workload_spin(until) + T(N - N);
}

class Oven
{
      public:
	virtual ~Oven() = default;
	NOINLINE virtual uint64_t bake(uint64_t until, const std::string &)
	{
		return workload_spin(until);
	}
};

struct Burnt : std::runtime_error {
	explicit Burnt(uint64_t at) : std::runtime_error("burnt"), at(at)
	{
	}
	uint64_t at;
};

NOINLINE uint64_t scorch(uint64_t until)
{
	try {
		throw Burnt(workload_spin(until));
	} catch (const Burnt &b) {
		return b.at;
	}
}

NOINLINE uint64_t call(const std::function<uint64_t(uint64_t)> &f, uint64_t until)
{
	return f(until);
}

} // namespace kiln

static uint64_t fire(uint64_t until)
{
	return kiln::fire<uint64_t, 3>(until);
}

static uint64_t bake(uint64_t until)
{
	static kiln::Oven *oven = new kiln::Oven;
	return oven->bake(until, "bread");
}

static uint64_t lambda(uint64_t until)
{
	return kiln::call([](uint64_t u) { return workload_spin(u); }, until);
}

int main(int argc, char **argv)
{
	struct workload_part parts[] = {
		{"kiln::fire", 0.50, fire, 0},
		{"kiln::Oven::bake", 0.30, bake, 0},
		{"kiln::call", 0.15, lambda, 0},
		{"kiln::scorch", 0.05, kiln::scorch, 0},
	};

	workload_ready();
	workload_run(parts, 4, (uint64_t)((argc > 1 ? atof(argv[1]) : 0) * 1e9));
	workload_report(parts, 4);
}

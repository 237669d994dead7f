// C++ that throws through several frames, with destructors on the way, and uses the library.
#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {
#include "workload.h"
}

struct Guard {
	std::string text;
	explicit Guard(int n) : text(40, char('a' + n % 26)) {}
	~Guard() { text.clear(); }
};

NOINLINE static int deep(int n)
{
	Guard g(n);

	if (n == 0)
		throw std::runtime_error("deep");
	return deep(n - 1) + int(g.text.size());
}

NOINLINE static int catches(int n)
{
	try {
		return deep(n);
	} catch (const std::runtime_error &e) {
		return int(std::string(e.what()).size());
	}
}

NOINLINE static int sorts(int n)
{
	std::vector<std::string> v;
	std::map<std::string, int> m;

	for (int i = 0; i < 200; i++)
		v.push_back(std::to_string((i * 7919 + n) % 1000));
	std::sort(v.begin(), v.end(), [](const std::string &a, const std::string &b) { return b < a; });
	for (auto &s : v)
		m[s]++;
	return int(m.size());
}

int main()
{
	int sum = 0;

	workload_ready();
	for (int i = 0; !workload_stop; i++)
		sum += catches(i % 12) + sorts(i);
	return sum == 1;
}

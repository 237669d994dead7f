<?php
// PHP that goes in and out of its own C: sorting with a callback, regular expressions, JSON.
echo "ready ", getmypid(), "\n";
flush();

function recurse($n) {
	return $n == 0 ? 0 : recurse($n - 1) + 1;
}

while (true) {
	$list = range(0, 2000);
	usort($list, fn($a, $b) => $b - $a);
	json_decode(json_encode(array_map(fn($x) => ["k$x" => [$x, $x]], $list)), true);
	preg_replace_callback('/(\w+) (\w+)/', fn($m) => $m[2] . $m[1], str_repeat("some words ", 200));
	for ($i = 0; $i < 200; $i++)
		recurse($i % 50);
}

%% What Erlang's JIT compiles: calls, recursion, lists, and built-in functions.
-module(nest).
-export([main/0]).

main() ->
	loop(1).

loop(N) ->
	_ = fib(18),
	_ = lists:sort([erlang:phash2({N, I}) || I <- lists:seq(1, 500)]),
	_ = maps:fold(fun(K, V, A) -> K + V + A end, 0, maps:from_list([{I, N} || I <- lists:seq(1, 99)])),
	_ = binary_to_list(crc(N, 50)),
	loop(N + 1).

fib(N) when N < 2 -> 1;
fib(N) -> fib(N - 1) + fib(N - 2).

crc(N, 0) -> integer_to_binary(N);
crc(N, K) -> crc(erlang:crc32(integer_to_binary(N + K)), K - 1).

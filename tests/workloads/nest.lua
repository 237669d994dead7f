-- What LuaJIT compiles, what it interprets, and what calls C.
local function burn(x)
	for i = 1, 200 do
		x = (x * 31 + i) % 1000003
	end
	return x
end
local function fib(n)
	if n < 2 then
		return burn(n)
	end
	return fib(n - 1) + fib(n - 2)
end
local function text(n)
	local t = {}
	for i = 1, n do
		t[i] = tostring(i) .. string.rep("x", i % 7)
	end
	table.sort(t, function(a, b) return a < b end)
	return table.concat(t)
end
local function each(x)
	return (("a" .. x):gsub(".", function(c) return c .. burn(x) end))
end
while true do
	fib(12)
	text(300)
	each(77)
	pcall(burn, 3)
end

/*
 * The table below the graph: a click on a head sorts by it, a click on a function finds it above.
 */
(() => {
'use strict';

const table = document.querySelector('table');
const heads = [...table.tHead.rows[0].cells];

function sort(head) {
	const column = Number(head.dataset.column);
	const isNumber = head.classList.contains('n');
	const was = head.getAttribute('aria-sort');
	const down = was ? was === 'ascending' : isNumber;
	const order = (a, b) => {
		const x = a.cells[column], y = b.cells[column];
		return isNumber ? x.dataset.n - y.dataset.n : x.textContent.localeCompare(y.textContent);
	};
	const rows = [...table.tBodies[0].rows].sort((a, b) => down ? order(b, a) : order(a, b));
	for (const other of heads)
		other.removeAttribute('aria-sort');
	head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
	table.tBodies[0].append(...rows);
}

function find(name) {
	const input = document.querySelector('.smolder input');
	input.value = `^${name.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')}$`;
	input.dispatchEvent(new Event('input'));
	input.scrollIntoView({block: 'nearest'});
}

table.addEventListener('click', event => {
	const cell = event.target.closest('th, td.name');
	if (cell?.tagName === 'TH')
		sort(cell);
	else if (cell)
		find(cell.textContent);
});
})();

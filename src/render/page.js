/*
 * The table below the graph: a click on a head sorts by it, a click on a function finds it above.
 */
(() => {
'use strict';

const table = document.querySelector('table');
const heads = [...table.tHead.rows[0].cells];

function valueOf(row, column) {
	const cell = row.cells[column];
	return cell.dataset.n === undefined ? cell.textContent : Number(cell.dataset.n);
}

function sort(head) {
	const column = heads.indexOf(head);
	const isNumber = head.classList.contains('n');
	const was = head.getAttribute('aria-sort');
	const down = was ? was === 'ascending' : isNumber;
	const order = (a, b) => {
		const x = valueOf(a, column), y = valueOf(b, column);
		return isNumber ? x - y : x.localeCompare(y);
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

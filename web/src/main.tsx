import {render} from 'preact';
import {start} from './data';
import {App} from './ui/app';

start();
render(<App />, document.getElementById('app')!);

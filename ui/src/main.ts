// The first file of the page: puts it on the screen.
import { mount } from 'svelte';
import App from './App.svelte';
import { live } from './state/live.svelte';
import { page } from './state/page.svelte';
import './styles/page.css';

page.start();
live.start();
const target = document.getElementById('page');
if (!target) throw new Error('the document has no element `page`');
mount(App, { target });

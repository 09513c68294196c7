import { kitOn } from './docker-kit.ts'

kitOn('docker', 'docker')

import { kitOn } from '../testing/docker-kit.ts'

kitOn('docker', 'docker')
